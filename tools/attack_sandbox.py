"""`python -m tools.attack_sandbox RECORDS`, from the root of a checkout.

Judges the hostile candidates of tests/sandbox/attacks in both grades, and writes one JSON line for
each attack and grade: the verdict, what is seen outside, and what happens to candidates after it.
"""

import json
from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import typer

from tests.sandbox.attacks.attack import BOTH_GRADES
from tests.sandbox.attacks.suite import ATTACKS
from tests.sandbox.attacks.supervising import all_seen

Records = Annotated[Path, typer.Argument(help="The JSONL file to write.")]
Only = Annotated[list[str] | None, typer.Option(help="The name of an attack; may be repeated.")]


def main(records: Records, only: Only = None) -> None:
    """Judge all attacks, or some, and count those that have an effect."""
    if unknown := set(only or ()) - ATTACKS.keys():
        raise typer.BadParameter(f"no such attack: {', '.join(sorted(unknown))}")
    names = dict.fromkeys(BOTH_GRADES, only or list(ATTACKS))
    seen = all_seen(names, tell)
    records.write_text("".join(json.dumps(line) + "\n" for line in seen))
    for line in counts(seen):
        typer.echo(line)


def tell(seen: dict[str, Any]) -> None:
    """Print one line of what is seen."""
    effects = "; ".join([*seen["outside"], *seen["after"]]) or "nothing"
    typer.echo(f"{seen['grade']} {seen['name']}: {seen['code'] or 'no verdict'}; {effects}"[:200])


def counts(seen: list[dict[str, Any]]) -> list[str]:
    """For each kind and grade, the number of attacks, of those with an effect, and their names."""
    total: Counter[tuple[str, str]] = Counter((line["kind"], line["grade"]) for line in seen)
    lines = []
    for (kind, grade), number in sorted(total.items()):
        mine = [line for line in seen if (line["kind"], line["grade"]) == (kind, grade)]
        names = [line["name"] for line in mine if line["outside"] or line["after"]]
        void = [line["name"] for line in mine if line["is_void"]]
        lines.append(f"{kind} {grade}: {len(names)} of {number} have an effect: {' '.join(names)}")
        if void:
            lines.append(f"{kind} {grade}: void: {' '.join(void)}")
    return lines


if __name__ == "__main__":
    typer.run(main)
