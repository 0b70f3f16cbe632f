"""What all sections of a config share: how strict they are, and bounds that several of them use."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

InputPath = Path  # every path in a section is an input file, which the loader looks for beside its config
Device = Annotated[str, Field(pattern=r"^[a-z]+(:[1-9]?[0-9])?$")]
Probability = Annotated[float, Field(ge=0.0, lt=1.0)]
MOST = 2**53  # beyond it JSON's readers and torch's integers disagree with Python's
PositiveInt = Annotated[int, Field(ge=1, le=MOST)]
NotNegativeInt = Annotated[int, Field(ge=0, le=MOST)]


class Section(BaseModel):
    """A strict and frozen section: an unknown key is an error, and no value changes after loading."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False)

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        """What is shown of a section: the values that differ from their defaults."""
        for name, field in type(self).model_fields.items():
            if (value := getattr(self, name)) != field.get_default(call_default_factory=True):
                yield name, value
