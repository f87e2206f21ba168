"""Which partition of Kafka's own topics has a group, or a transactional id. No I/O."""

from __future__ import annotations


def state_partition(name: str, partitions: int) -> int:
    """The partition of `__consumer_offsets` that has a group, or of `__transaction_state` an id.

    As GroupCoordinator.partitionFor and TransactionStateManager.partitionFor.
    """
    hashed = 0
    text = name.encode("utf-16-be", "surrogatepass")
    for first, second in zip(text[::2], text[1::2], strict=True):
        hashed = (31 * hashed + (first << 8 | second)) & 0xFFFFFFFF
    signed = hashed - (1 << 32) if hashed >= 1 << 31 else hashed
    return (0 if signed == -(1 << 31) else abs(signed)) % partitions
