"""``penstock graph``: the plan as text, SVG or Mermaid."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from penstock.base.errors import ConfigError
from penstock.cli.options import JobFileArgument, SetOption


class Format(StrEnum):
    """How the plan is drawn."""

    TEXT = "text"
    SVG = "svg"
    MERMAID = "mermaid"


def graph(
    file: JobFileArgument,
    format_: Annotated[
        Format, typer.Option("--format", "-f", help="how it is drawn")
    ] = Format.TEXT,
    set_: SetOption = [],  # noqa: B006  typer reads the default, nobody writes it
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="PATH", help="a file; default: standard output"),
    ] = None,
) -> None:
    """Draw a job: its stages, and how rows go between them."""
    from penstock.graph import load_job  # noqa: PLC0415  keep --help fast
    from penstock.graph.draw import draw_mermaid, draw_svg, draw_text  # noqa: PLC0415

    job = load_job(file, None, set_)
    painters = {Format.TEXT: draw_text, Format.SVG: draw_svg, Format.MERMAID: draw_mermaid}
    picture = painters[format_](job)
    if output is None:
        print(picture)
    else:
        try:
            output.write_text(picture + "\n", encoding="utf-8")
        except OSError as error:
            raise ConfigError(f"--output {output}: {error.strerror}") from error
        print(f"wrote {output}")
