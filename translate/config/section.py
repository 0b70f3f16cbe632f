"""What all sections of a config share: how strict they are, and the bounds that recur."""

from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

InputPath = Path  # every path in a section is an input file, which the loader looks for beside its config
Probability = Annotated[float, Field(ge=0.0, lt=1.0)]
MOST = 2**53  # beyond it JSON's readers and torch's integers disagree with Python's
PositiveInt = Annotated[int, Field(ge=1, le=MOST)]
NotNegativeInt = Annotated[int, Field(ge=0, le=MOST)]
TestName = Annotated[str, Field(pattern=r"^[\w-]+$")]


class Section(BaseModel):
    """Strict and frozen: an unknown key is an error, and nobody changes a value after loading."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False)
