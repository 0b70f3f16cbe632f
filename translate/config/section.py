"""Shared by all sections of a config: how strict they are, and bounds of several keys."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidatorFunctionWrapHandler, WrapValidator
from pydantic_core import PydanticCustomError

InputPath = Path  # the loader looks for input files next to the config that names them
Device = Annotated[str, Field(pattern=r"^[a-z]+(:[1-9]?[0-9])?$")]
Probability = Annotated[float, Field(ge=0.0, lt=1.0)]
MOST = 2**53  # JSON and torch have no larger exact integers
# For numbers that cost nothing when huge: such a number limits nothing, or is an interval that is never reached.
PositiveInt = Annotated[int, Field(ge=1, le=MOST)]
NotNegativeInt = Annotated[int, Field(ge=0, le=MOST)]


def expecting(message: str) -> WrapValidator:
    """The message about a wrong value, in place of pydantic's, which would explain each alternative of a union."""

    def check(value: Any, inner: ValidatorFunctionWrapHandler) -> Any:
        try:
            return inner(value)
        except ValidationError:
            raise PydanticCustomError("expecting", "{message}", {"message": message}) from None

    return WrapValidator(check)


class Section(BaseModel):
    """A strict and frozen section: an unknown key is an error, and no value changes after loading."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False)

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        """Shows only values that differ from their defaults."""
        for name, field in type(self).model_fields.items():
            if (value := getattr(self, name)) != field.get_default(call_default_factory=True):
                yield name, value
