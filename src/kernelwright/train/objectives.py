"""Objectives of reinforcement learning, as functions of log-probabilities.

Shapes: B answers of T tokens each. `mask` (B, T) is 1 on an answer's own tokens. Answers to the
same program have the same number in `groups` (B,).
"""

import torch

Tensor = torch.Tensor


def by_token(plan: Tensor, code: Tensor, is_plan: Tensor, *, alpha: float) -> Tensor:
    """(B, T) advantages: a plan's tokens have alpha times those of the plan, the others those of
    the code (TritonRL's hierarchical decomposition: alpha J_plan + J_code).

    Args:
        plan, code: (B,).
        is_plan: (B, T), of the tokens up to the end of the plan.
    """
    return torch.where(is_plan.bool(), alpha * plan[:, None], code[:, None])


def mean_logps(logps: Tensor, mask: Tensor) -> Tensor:
    """(B,) length-normalised scores s(o, q) = sum of log pi over |o| (DRTriton, section 4.3)."""
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
    """The loss of DRTriton's equation 5: correct answers are pulled up by their weights, wrong ones
    pushed down by a log-mean-exp, and the policy is held near the one that answered.

    Groups that are all correct or all wrong give no gradient but that of the hinge, as in the code
    that the authors' group published. They count in the mean over queries all the same: equation 5
    divides by all n of them. With `contrasts_right`, which is ours, groups that are all correct are
    pulled by their weights less the mean weight: the fast at the expense of the slow. A policy that
    is nearly always right would learn nothing of speed otherwise.

    Args:
        logps, old_logps: (B, T) of the policy that learns and of the one that answered.
        is_correct: (B,) bool.
        weights: (B,) summing to 1 over each group's correct answers (`advantages.correct_weights`).
        beta, delta: of the squared hinge on KL(old || new).

    Returns:
        A scalar, the mean over all groups.
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
            losses.append(-((weights[right] - 1 / right.sum()) * scores[right]).sum())
    policy = torch.stack(losses).sum() / len(numbers) if losses else (logps * 0.0).sum()
    return policy + hinge(logps, old_logps, mask, beta=beta, delta=delta)


def hinge(logps: Tensor, old_logps: Tensor, mask: Tensor, *, beta: float, delta: float) -> Tensor:
    """beta max(0, KL(old || new) - delta)^2, KL by the mean of log old - log new over the tokens
    that the old policy drew."""
    kl = ((old_logps.detach() - logps) * mask).sum() / mask.sum().clamp(min=1)
    return beta * (kl - delta).clamp(min=0.0).square()


def reference_kl(logps: Tensor, reference_logps: Tensor, mask: Tensor) -> Tensor:
    """KL(new || reference) by Schulman's estimator exp(r) - r - 1 with r = log reference - log new,
    the mean over an answer's tokens, then over answers: the term of GRPO (Shao et al. 2024, eq. 4).

    Args:
        reference_logps: (B, T) of the model that the run began with.
    """
    ratio = reference_logps.detach() - logps
    return mean_logps(ratio.exp() - ratio - 1, mask).mean()


def log_mean_exp(values: Tensor) -> Tensor:
    """Scalar, of (n,)."""
    return torch.logsumexp(values, 0) - torch.log(
        torch.tensor(float(len(values)), device=values.device)
    )
