"""The rules as a page: `python -m kernelwright.verify.rules.table > docs/static-rules.md`."""

import sys

from kernelwright.verify.rules import RULES, RuleSeverity
from kernelwright.verify.static import __doc__ as PRINCIPLE

HEAD = """\
# Static rules

Generated from `verify/rules`; do not edit.

{principle}
A rule reads a syntax tree whose names are resolved: import aliases, plain assignments, `getattr`
and look-ups under constant names, modules that other modules import. What only
`if __name__ == "__main__":` runs is left out, and hints look at what the entry can reach. The last
column names the known exploits a rule is aimed at.
"""
TITLES = {
    RuleSeverity.REFUSE: "## Refused (`forbidden`)",
    RuleSeverity.HINT: "## Hints (the verdict's advice)",
}


def table() -> str:
    """The whole page."""
    principle = (PRINCIPLE or "").partition("\n\n")[2]
    parts = [HEAD.format(principle=principle)]
    for severity, title in TITLES.items():
        rows = [
            f"| `{rule.id}`{', `pure` mode only' if rule.is_pure_only else ''} | {rule.reason} "
            f"| {rule.remedy} | {', '.join(rule.exploits)} |"
            for rule in RULES
            if rule.severity is severity
        ]
        header = ["| rule | why | what to do instead | aimed at |", "| --- | --- | --- | --- |"]
        parts.append("\n".join([title, "", *header, *rows]) + "\n")
    return "\n".join(parts)


if __name__ == "__main__":
    sys.stdout.write(table())
