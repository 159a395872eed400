"""Static rules over the source of a candidate. `RULES` lists the rules in the order of their
evaluation."""

from kernelwright.verify.rules import bodies, conduct, outside, rewiring, work
from kernelwright.verify.rules.rule import Rule, RuleSeverity

RULES: tuple[Rule, ...] = (
    outside.dynamic_code,
    outside.foreign_import,
    outside.reaches_outside,
    outside.frame_walk,
    rewiring.patches_module,
    rewiring.global_switch,
    rewiring.own_allocator,
    rewiring.process_hook,
    rewiring.escapes_dispatch,
    rewiring.asks_for_observers,
    rewiring.tensor_subclass,
    rewiring.other_compiler,
    rewiring.compiled_whole,
    bodies.host_code_in_kernel,
    work.library_compute,
    work.leaves_torch,
    work.precomputes,
    work.fallback,
    work.dead_kernel,
    work.constant_output,
    work.hard_coded,
    work.precision_drop,
    conduct.computed_name,
    conduct.keyed_by_address,
    conduct.returns_kept,
    conduct.counts_calls,
    conduct.looks_around,
    conduct.reseeds,
    conduct.own_stream,
    conduct.cuda_graph,
)

__all__ = ["RULES", "Rule", "RuleSeverity"]
