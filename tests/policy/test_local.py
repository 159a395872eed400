"""A model in this process as a policy: the template it has, seeds, marks, and folders that fail."""

import json

import pytest
import torch

from kernelwright.core.errors import UsageError
from kernelwright.ops.operator import TensorType
from kernelwright.policy.answer import Malformed
from kernelwright.policy.embedded import fresh_model, save_model
from kernelwright.policy.endpoint import Message
from kernelwright.policy.local import LocalModel, prompt_tokens
from kernelwright.policy.mending import Mender
from kernelwright.policy.policy import Sampling
from kernelwright.policy.prompt import SYSTEM, Request, conversation, request_text
from kernelwright.policy.tokenizer import ASSISTANT, CODE_BEGIN, PLAN_BEGIN, USER, train_tokenizer
from kernelwright.programs.build import Builder

SIZES = {"hidden": 32, "layers": 1, "heads": 2, "kv_heads": 1, "intermediate": 32}
WARM = Sampling(temperature=1.0, max_tokens=12)


def request(size=64):
    builder = Builder()
    return Request(
        program=builder.program(builder.call("relu", input=builder.input(TensorType((size,)))))
    )


@pytest.fixture
def tokenizer():
    texts = [message.content for message in conversation(request())]
    return train_tokenizer(texts, vocabulary=600, max_length=1024)


@pytest.fixture
def model(tokenizer):
    torch.manual_seed(0)
    return fresh_model(len(tokenizer), max_length=1024, **SIZES).eval()


def prompts(policy, messages):
    return policy._tokenizer.decode(prompt_tokens(policy._tokenizer, messages))


def test_a_trained_model_sees_the_user_s_message_alone(tokenizer, model):
    policy = LocalModel("m", model, tokenizer)
    expected = f"{USER}{request_text(request())}{ASSISTANT}"
    assert prompts(policy, conversation(request())) == expected


def test_a_template_without_system_messages_gets_them_from_the_user(tokenizer, model):
    tokenizer.chat_template = (
        "{% for m in messages %}{% if m.role == 'system' %}"
        "{{ raise_exception('no system role') }}{% endif %}"
        "[{{ m.role }}]{{ m.content }}{% endfor %}"
    )
    found = prompts(LocalModel("m", model, tokenizer), conversation(request()))
    assert found == f"[user]{SYSTEM}\n{request_text(request())}"


def test_samples_differ_and_come_back_with_their_seed(tokenizer, model):
    policy = LocalModel("m", model, tokenizer)
    few = policy.write([request()], samples=4, sampling=WARM)
    assert len({answer.text for answer in few[0]}) == 4
    beside = policy.write([request(128), request()], samples=4, sampling=WARM)
    assert beside[1] == few[0]
    assert beside[0] != few[0]
    other = Sampling(temperature=1.0, max_tokens=12, seed=1)
    assert policy.write([request()], samples=4, sampling=other) != few


def test_greedy_is_one_answer(tokenizer, model):
    policy = LocalModel("m", model, tokenizer)
    assert len(policy.write([request()], samples=4, sampling=Sampling(max_tokens=3))[0]) == 1


def test_marks_of_plan_and_code_are_part_of_the_text(tokenizer, model):
    """A model that writes one token for ever: its text is that token's."""
    for mark in (PLAN_BEGIN, CODE_BEGIN):
        with torch.no_grad():
            rows = model.get_input_embeddings().weight
            rows.copy_(torch.randn_like(rows) * 0.01)
            rows[tokenizer.convert_tokens_to_ids(mark)] = 1.0
            model.model.norm.weight.fill_(1.0)
            for layer in model.model.layers:
                layer.mlp.down_proj.weight.zero_()
                layer.self_attn.o_proj.weight.zero_()
        policy = LocalModel("m", model, tokenizer)
        told = [[Message("user", mark), Message("assistant", mark)]]
        tokenizer.chat_template = "{{ messages[0].content }}"
        assert policy.chat(told, samples=1, sampling=Sampling(max_tokens=3)) == [[mark * 3]]


def test_an_answer_ends_with_what_the_chat_template_puts_behind_it(tokenizer, model, tmp_path):
    """Not with the tokenizer's end alone: the model is trained to write the other."""
    tokenizer.chat_template = "{% for m in messages %}{{ m.content }}" + USER + "\n{% endfor %}"
    save_model(model, tokenizer, tmp_path)
    saved = json.loads((tmp_path / "generation_config.json").read_text())
    behind = tokenizer.convert_tokens_to_ids(USER)
    assert set(saved["eos_token_id"]) == {behind, tokenizer.eos_token_id}
    assert LocalModel("m", model, tokenizer)._decoder._stops == {behind, tokenizer.eos_token_id}


def test_a_model_by_its_path(tokenizer, model, tmp_path):
    save_model(model, tokenizer, tmp_path)
    policy = LocalModel.of_path(f"hf:{tmp_path}")
    assert policy.name == f"hf:{tmp_path}"
    answers = policy.write([request()], samples=2, sampling=WARM)
    assert all(answer.candidate or answer.malformed for answer in answers[0])


def test_a_request_that_fills_the_context_is_told(tokenizer):
    torch.manual_seed(0)
    small = fresh_model(len(tokenizer), max_length=32, **SIZES).eval()
    ((answer,),) = LocalModel("m", small, tokenizer).write(
        [request()], samples=1, sampling=Sampling()
    )
    assert answer.malformed is Malformed.EMPTY
    assert "fills the model's context" in answer.message


def test_a_model_without_a_chat_template_is_refused(tokenizer, model):
    tokenizer.chat_template = None
    with pytest.raises(UsageError, match="no chat template"):
        LocalModel("m", model, tokenizer)


def test_answers_are_mended_where_that_is_asked_for(model, tokenizer, monkeypatch):
    asked = []

    class Noted(Mender):
        def mend(self, written, prompts, programs, *, seeds, sampling):
            asked.append((len(written), len(prompts), len(programs), len(seeds), sampling.mends))
            return written

    monkeypatch.setattr("kernelwright.policy.local.Mender", Noted)
    policy = LocalModel("m", model, tokenizer)
    requests = [request(), request()]
    policy.write(requests, samples=3, sampling=Sampling(temperature=1.0, max_tokens=4, mends=2))
    assert asked == [(6, 6, 6, 6, 2)]
    policy.write(requests, samples=3, sampling=Sampling(temperature=1.0, max_tokens=4))
    policy.chat([conversation(request())], samples=1, sampling=Sampling(max_tokens=4, mends=2))
    assert len(asked) == 1, "conversations are about no program that is known"
