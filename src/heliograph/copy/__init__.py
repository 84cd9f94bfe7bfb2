"""Executor side: claim, match, copy, rebuild, ledger."""
