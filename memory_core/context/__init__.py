"""A context that fits: compaction, truncation, pruning, eviction, overflow, token estimates.

`plan`, `apply`, `truncate_args`, `prune` and `plan_eviction` are pure; `compact` runs a strategy with a model;
`LargeResults` keeps evicted results in files.
"""
