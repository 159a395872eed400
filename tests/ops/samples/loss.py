"""Sample calls of the losses and similarities."""

from samples import bf16, f16, f32, i64, sample

PAIRWISE = ("mse_loss", "l1_loss", "huber_loss", "smooth_l1_loss", "kl_div")
SIGNED = ("hinge_embedding_loss", "soft_margin_loss")
BINARY = ("binary_cross_entropy", "binary_cross_entropy_with_logits")

SAMPLES = (
    *(
        sample(op, x, y, **attributes)
        for op in (*PAIRWISE, *SIGNED)
        for x, y, attributes in (
            (f32(3, 5), f32(3, 5), {}),
            (f32(3, 5), f32(3, 5), {"reduction": "sum"}),
            (f32(7), f32(7), {"reduction": "none"}),
        )
    ),
    *(sample(op, f32(3, 1), f32(4), reduction="none") for op in PAIRWISE),
    sample("mse_loss", bf16(3, 5), bf16(3, 5)),
    sample("mse_loss", f32(3, 5), f16(3, 5)),
    sample("mse_loss", f32(), f32()),
    sample("huber_loss", f32(3, 5), f32(3, 5), delta=2.0),
    sample("smooth_l1_loss", f32(3, 5), f32(3, 5), beta=0.0),
    sample("kl_div", f32(3, 5), f32(3, 5), reduction="batchmean"),
    sample("kl_div", f32(3, 5), f32(3, 5), log_target=True),
    sample("hinge_embedding_loss", f32(3, 5), f32(5), margin=0.5),
    sample("cross_entropy", f32(4, 5), i64(4)),
    sample("cross_entropy", f32(5), i64()),
    sample("cross_entropy", f32(4, 5, 2, 3), i64(4, 2, 3), reduction="none"),
    sample("cross_entropy", f32(4, 5), i64(4), f32(5), label_smoothing=0.1, reduction="sum"),
    sample("cross_entropy", f32(4, 5, 3), f32(4, 5, 3)),
    sample("cross_entropy", f32(4, 5), f32(4, 5), f32(5), reduction="none", label_smoothing=0.2),
    sample("nll_loss", f32(4, 5), i64(4)),
    sample("nll_loss", f32(4, 5, 2), i64(4, 2), f32(5), reduction="none"),
    *(
        sample(op, x, y, **attributes)
        for op in BINARY
        for x, y, attributes in (
            (f32(3, 5), f32(3, 5), {}),
            (f32(3, 5), f32(3, 5), {"weight": f32(5), "reduction": "none"}),
            (f16(7), f16(7), {"reduction": "sum"}),
        )
    ),
    sample("binary_cross_entropy_with_logits", f32(3, 5), f32(3, 5), pos_weight=f32(5)),
    sample("margin_ranking_loss", f32(7), f32(7), f32(7)),
    sample("margin_ranking_loss", f32(3, 5), f32(3, 1), f32(1, 5), margin=0.5, reduction="none"),
    sample("cosine_embedding_loss", f32(3, 5), f32(3, 5), f32(3)),
    sample("cosine_embedding_loss", f32(5), f32(5), f32(), margin=0.5),
    sample("cosine_embedding_loss", f32(3, 5), f32(1, 5), f32(3), reduction="none"),
    sample("triplet_margin_loss", f32(3, 5), f32(3, 5), f32(3, 5)),
    sample("triplet_margin_loss", f32(5), f32(5), f32(5), swap=True),
    sample(
        "triplet_margin_loss", f32(2, 3, 5), f32(1, 3, 5), f32(2, 1, 5), p=1.0, margin=0.5,
        reduction="none",
    ),
    sample("cosine_similarity", f32(3, 5), f32(3, 5)),
    sample("cosine_similarity", f32(2, 3, 5), f32(3, 5), dim=-1),
    sample("pairwise_distance", f32(3, 5), f32(3, 5)),
    sample("pairwise_distance", f32(3, 5), f32(5), p=1.0, keepdim=True),
)  # fmt: skip

BAD = (
    *(sample(op, f32(3, 5), f32(3, 4)) for op in (*PAIRWISE, *SIGNED, *BINARY)),
    *(sample(op, f32(3, 5), f32(3, 5), reduction="median") for op in (*PAIRWISE, *BINARY)),
    *(sample(op, f32(3, 5), f32(5)) for op in BINARY),
    sample("mse_loss", f32(3, 5), f32(3, 5), reduction="batchmean"),
    sample("mse_loss", i64(3, 5), i64(3, 5)),
    sample("huber_loss", f32(3, 5), f32(3, 5), delta=0.0),
    sample("smooth_l1_loss", f32(3, 5), f32(3, 5), beta=-1.0),
    sample("cross_entropy", f32(), i64()),
    sample("cross_entropy", f32(4, 5), i64(5)),
    sample("cross_entropy", f32(4, 5), f32(4)),
    sample("cross_entropy", f32(4, 5), i64(4), f32(4)),
    sample("cross_entropy", f32(4, 5), i64(4), label_smoothing=1.5),
    sample("cross_entropy", f32(4, 5), f32(4, 5), ignore_index=2),
    sample("nll_loss", f32(4, 5), f32(4, 5)),
    sample("nll_loss", f32(4, 5, 2), i64(4, 3)),
    sample("margin_ranking_loss", f32(3, 5), f32(5), f32(3, 5)),
    sample("margin_ranking_loss", f32(3), f32(5), f32(3)),
    sample("cosine_embedding_loss", f32(3, 5), f32(3, 5), f32(3, 5)),
    sample("cosine_embedding_loss", f32(5), f32(5), f32(1)),
    sample("triplet_margin_loss", f32(3, 5), f32(5), f32(3, 5)),
    sample("triplet_margin_loss", f32(3, 5), f32(3, 5), f32(3, 5), margin=0.0),
    sample("cosine_similarity", f32(3, 5), f32(3, 5), dim=2),
    sample("cosine_similarity", f32(3, 5), f32(3, 4)),
    sample("pairwise_distance", f32(3, 5), f32(3, 4)),
)
