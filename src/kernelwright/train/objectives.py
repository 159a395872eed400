"""Objectives of reinforcement learning, as functions of log-probabilities.

Shapes: B answers of T tokens each. `mask` (B, T) is 1 on an answer's own tokens. Answers to the
same program have the same number in `groups` (B,).
"""

import torch

Tensor = torch.Tensor


def by_token(plan: Tensor, code: Tensor, is_plan: Tensor, *, alpha: float) -> Tensor:
    """Give every token its advantage: alpha times the plan's for tokens of the plan, the code's for
    all others (TritonRL's hierarchical decomposition: alpha J_plan + J_code).

    Args:
        plan, code: (B,) advantages of each answer's plan and code.
        is_plan: (B, T), true on tokens up to the end of the plan.

    Returns:
        (B, T).
    """
    return torch.where(is_plan.bool(), alpha * plan[:, None], code[:, None])


def mean_logps(logps: Tensor, mask: Tensor) -> Tensor:
    """Length-normalised scores s(o, q) = (1 / |o|) sum_t log pi(o_t | q, o_<t), (B,) (DRTriton,
    section 4.3). Without the division a long answer would have a low score for its length alone."""
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
    """The loss of DRPO (DRTriton, equation 5), with S+ and S- a group's correct and wrong answers:

        mean over groups of ( tau log mean_{S-} exp(s / tau) - sum_{S+} w s )
        + beta max(0, KL(old || new) - delta)^2

    Groups that are all correct or all wrong give no gradient but that of the hinge, as in the code
    that the authors' group published. They count in the mean over groups all the same: equation 5
    divides by all n of them. With `contrasts_right`, which is ours, groups that are all correct are
    pulled by their weights less the mean weight: the fast at the expense of the slow. A policy that
    is nearly always right would learn nothing of speed otherwise.

    Args:
        logps, old_logps: (B, T) of the policy that learns and of the one that answered.
        groups: (B,) the number of each answer's group: its program.
        is_correct: (B,) bool.
        weights: (B,) w, which sums to 1 over each group's correct answers
            (`advantages.correct_weights`).
        tau: temperature of the log-mean-exp. A small tau pushes the likeliest wrong answer most.
        beta, delta: factor of the hinge, and the KL that costs nothing.

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

    KL is the mean of log old - log new over the answers' tokens.

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
    """log(mean(exp(values))) of (n,) values, a scalar. logsumexp keeps large values finite."""
    return torch.logsumexp(values, 0) - torch.log(
        torch.tensor(float(len(values)), device=values.device)
    )
