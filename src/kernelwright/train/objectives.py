"""Objectives of reinforcement learning, as functions of log-probabilities.

Shapes: B answers of T tokens each. `mask` (B, T) is 1 on an answer's own tokens. Answers to the
same program have the same number in `groups` (B,).
"""

import torch

Tensor = torch.Tensor


def by_token(plan: Tensor, code: Tensor, is_plan: Tensor, *, alpha: float) -> Tensor:
    """The advantage of each token: alpha times the plan's advantage for tokens of the plan, and the
    code's advantage for all other tokens (TritonRL's decomposition alpha J_plan + J_code).

    Args:
        plan, code: (B,) advantages of each answer's plan and code.
        is_plan: (B, T), true on tokens up to the end of the plan.

    Returns:
        (B, T).
    """
    return torch.where(is_plan.bool(), alpha * plan[:, None], code[:, None])


def mean_logps(logps: Tensor, mask: Tensor) -> Tensor:
    """Length-normalised scores of answers, (B,) (DRTriton, section 4.3).

    The score is s(o, q) = (1 / |o|) sum_t log pi(o_t | q, o_<t) for an answer o to a request q.
    Without the division by |o|, a long answer would have a low score because of its length.
    """
    return (logps * mask).sum(-1) / mask.sum(-1).clamp(min=1)


def drpo(
    logps: Tensor,
    old_logps: Tensor,
    mask: Tensor,
    *,
    groups: Tensor,
    is_correct: Tensor,
    weights: Tensor,
    tau: float,
    beta: float,
    delta: float,
    contrasts_right: bool = False,
) -> Tensor:
    """The loss of DRPO (DRTriton, equation 5). S+ and S- are the correct and the wrong answers of a
    group, and s are the scores of `mean_logps`:

        mean over groups of ( tau log mean_{S-} exp(s / tau) - sum_{S+} w s )
        + beta max(0, KL(old || new) - delta)^2

    A group with correct answers alone, or with wrong answers alone, has only the gradient of the
    hinge. The code that the authors' group published does the same. Such groups count in the mean
    over groups, because equation 5 divides by the number of all groups.

    `contrasts_right` is ours. With this option, a group with correct answers alone raises the
    scores of fast answers and lowers the scores of slow answers: the factor of a score is its
    weight minus the mean weight. Otherwise a policy that is nearly always right would not learn
    speed.

    Args:
        logps: (B, T) log-probabilities of the policy that learns.
        old_logps: (B, T) log-probabilities of the policy that wrote the answers.
        mask: (B, T), 1 on the tokens of answers.
        groups: (B,) the number of each answer's group: its program.
        is_correct: (B,) bool.
        weights: (B,) w, which sums to 1 over each group's correct answers
            (`advantages.correct_weights`).
        tau: temperature of the log-mean-exp. A small tau pushes the likeliest wrong answer most.
        beta: factor of the squared hinge.
        delta: the KL divergence up to which the hinge is 0.
        contrasts_right: whether groups with correct answers alone teach speed.

    Returns:
        A scalar.
    """
    scores = mean_logps(logps, mask)
    losses = []
    numbers = sorted(set(groups.tolist()))
    for group in numbers:
        inside = groups == group
        right, wrong = inside & is_correct, inside & ~is_correct
        if right.any() and wrong.any():
            pull = (weights[right] * scores[right]).sum()
            push = tau * log_mean_exp(scores[wrong] / tau)
            losses.append(push - pull)
        elif right.any() and contrasts_right:
            # The mean weight is subtracted, so that the factors of a group sum to 0. Otherwise the
            # loss would raise all answers of a group that needs no raising.
            losses.append(-((weights[right] - 1 / right.sum()) * scores[right]).sum())
    policy = torch.stack(losses).sum() / len(numbers) if losses else (logps * 0.0).sum()
    return policy + hinge(logps, old_logps, mask, beta=beta, delta=delta)


def hinge(logps: Tensor, old_logps: Tensor, mask: Tensor, *, beta: float, delta: float) -> Tensor:
    """The squared hinge beta max(0, KL(old || new) - delta)^2, a scalar.

    The KL divergence is estimated by the mean of log old - log new over all tokens of answers.

    Args:
        logps, old_logps, mask: (B, T), as for `drpo`.
    """
    # The old policy drew these tokens, so the plain mean estimates KL(old || new) without weights.
    kl = ((old_logps.detach() - logps) * mask).sum() / mask.sum().clamp(min=1)
    return beta * (kl - delta).clamp(min=0.0).square()


def reference_kl(logps: Tensor, reference_logps: Tensor, mask: Tensor) -> Tensor:
    """KL(new || reference), a scalar: the term of GRPO (Shao et al. 2024, equation 4).

    Schulman's estimator exp(r) - r - 1 with r = log reference - log new is never negative. Its mean
    is taken over each answer's tokens, then over answers.

    Args:
        logps: (B, T) of the policy that learns.
        reference_logps: (B, T) of the model that the run began with.
    """
    ratio = reference_logps.detach() - logps
    return mean_logps(ratio.exp() - ratio - 1, mask).mean()


def log_mean_exp(values: Tensor) -> Tensor:
    """log(mean(exp(values))) for (n,) values, a scalar. Large values do not overflow."""
    return torch.logsumexp(values, 0) - torch.log(
        torch.tensor(float(len(values)), device=values.device)
    )
