"""Every verb's help: examples that parse, a link, full sentences, flags without types."""

import re
import shlex

import pytest
from cli_runs import exit_code
from typer.main import get_command

from kernelwright.cli.main import app

ROOT = get_command(app)


def walk(command=ROOT, path=("kernelwright",)):
    """Every command with the words that name it."""
    yield path, command
    for name, child in sorted(getattr(command, "commands", {}).items()):
        yield from walk(child, (*path, name))


COMMANDS = list(walk())
each_command = pytest.mark.parametrize(
    ("path", "command"), COMMANDS, ids=[" ".join(path) for path, _ in COMMANDS]
)


def examples(command):
    return re.findall(r"\[bold\]\$ (.*)\[/bold\]", command.epilog or "")


def parameters(command, path):
    with command.make_context(path[-1], [], resilient_parsing=True) as context:
        return command.get_params(context)


@each_command
def test_help_has_examples_and_a_link_to_documentation(path, command):
    assert examples(command)
    assert re.search(r"Documentation: \S+\.md$", command.epilog)


@each_command
def test_every_example_parses(path, command):
    for example in examples(command):
        words = shlex.split(example)
        assert words[0] == "kernelwright"
        parsed = ROOT
        while words[1:] and getattr(parsed, "commands", {}).get(words[1]):
            parsed, words = parsed.commands[words[1]], words[1:]
        with parsed.make_context(words[0], words[1:]):
            pass


@each_command
def test_help_texts_are_sentences(path, command):
    texts = [command.help or "", *(getattr(p, "help", None) for p in parameters(command, path))]
    for text in texts:
        assert text, f"{path} has a parameter without help"
        assert text.rstrip().endswith("."), text
        assert re.match(r"[A-Z`]", text), text
        assert not re.match(r"(Of|For|After|From|At) ", text), text


@each_command
def test_flags_show_no_type_and_defaults_are_words(path, command):
    for parameter in parameters(command, path):
        if getattr(parameter, "is_flag", False):
            assert parameter.metavar == ""
        if getattr(parameter, "default", None) == float("inf"):
            assert isinstance(parameter.show_default, str)


@each_command
def test_help_has_a_short_name_and_out_has_one(path, command):
    names = [set(parameter.opts) for parameter in parameters(command, path)]
    assert {"-h", "--help"} in names
    assert all("-o" in found for found in names if "--out" in found)


def test_the_budget_option_has_one_name():
    options = {opt for path, c in COMMANDS for p in parameters(c, path) for opt in p.opts}
    assert {option for option in options if "budget" in option} == {"--budget"}


def test_options_are_in_lower_case():
    """Some versions of Typer take a metavar that equals the name in capitals for the option."""
    options = {opt for path, c in COMMANDS for p in parameters(c, path) for opt in p.opts}
    assert {
        option for option in options if option.startswith("--") and not option.islower()
    } == set()


def test_every_verb_prints_json():
    for path, command in COMMANDS:
        if not hasattr(command, "commands"):  # else a group of verbs
            options = {opt for p in parameters(command, path) for opt in p.opts}
            assert "--json" in options, path


def test_completion_can_be_installed():
    options = {opt for p in parameters(ROOT, ("kernelwright",)) for opt in p.opts}
    assert {"--install-completion", "--show-completion"} <= options


@pytest.mark.parametrize("words", [["-h"], ["optimize", "-h"], ["eval", "kernelbench", "-h"]])
def test_help_fits_80_columns_and_names_no_bool(words, capsys, monkeypatch):

    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERMINAL_WIDTH", "80")
    assert exit_code(words) == 0
    shown = capsys.readouterr().out
    assert "<bool>" not in shown
    assert "000000.0" not in shown
    assert max(map(len, shown.splitlines())) <= 80
