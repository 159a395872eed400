from pairs_data import pair_line, recipe, shard_file

from kernelwright.data.pairs.select import select

ONE = {"name": "a", "level": 1, "programs": 1}
TWO = {"name": "b", "level": 2, "programs": 1}


def test_of_the_same_answer_to_the_same_program_the_first_is_kept(tmp_path):
    lines = [
        pair_line("a/0/0"),
        pair_line("a/1/0", "another"),
        pair_line("a/2/0"),
        pair_line("a/3/0", canonical="q"),
    ]
    path = shard_file(tmp_path, "a-00000.jsonl", lines, no_form=2)
    found = select([path], recipe(ONE))
    assert found.kept == {"a/0/0", "a/1/0", "a/3/0"}
    assert found.tallies["a"]["dropped"] == {"no_form": 2, "duplicate": 1}


def test_duplicates_are_found_across_parts(tmp_path):
    paths = [
        shard_file(tmp_path, "b-00000.jsonl", [pair_line("b/0/0")]),
        shard_file(tmp_path, "a-00000.jsonl", [pair_line("a/0/0")]),
    ]
    found = select(paths, recipe(ONE, TWO))
    assert found.kept == {"b/0/0"}
    assert found.tallies["a"]["dropped"] == {"duplicate": 1}


def test_shares_are_kept_by_leaving_out_and_parts_without_are_whole(tmp_path):
    made = recipe(
        ONE | {"share": 3.0}, TWO | {"share": 1.0}, {"name": "c", "level": 1, "programs": 1}
    )
    paths = [
        shard_file(
            tmp_path,
            f"{name}-00000.jsonl",
            [pair_line(f"{name}/{i}/0", f"{name}{i}") for i in range(num)],
        )
        for name, num in (("a", 60), ("b", 50), ("c", 7))
    ]
    found = select(paths, made)
    kept = {name: sum(each.startswith(name) for each in found.kept) for name in "abc"}
    assert kept == {"a": 60, "b": 20, "c": 7}
    assert found.tallies["b"]["dropped"] == {"more than its share": 30}
    assert select(paths, made).kept == found.kept
