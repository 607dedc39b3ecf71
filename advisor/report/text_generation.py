"""What users of generated text notice, in words: until the first token, between tokens, and what the device gives of its best."""

from __future__ import annotations

from advisor.domain.measurement import Generation
from advisor.report.document import RunDocument


def words_of_generation(found: Generation | None) -> str:
    """Return the figures that could be had; nothing for another task."""
    if found is None:
        return ""
    words = [
        f"first token after {found.ttft_seconds * 1e3:.3g} ms"
        if found.ttft_seconds is not None
        else "",
        f"{found.itl_seconds * 1e3:.3g} ms between tokens" if found.itl_seconds is not None else "",
        f"{found.tokens_per_second_per_user:.3g} tokens/s for each user"
        if found.tokens_per_second_per_user is not None
        else "",
        f"cache {found.cache_bytes / 2**20:.3g} MiB" if found.cache_bytes is not None else "",
        tell_bandwidth(found.mbu),
        f"{found.mfu:.0%} of the arithmetic" if found.mfu is not None else "",
    ]
    return ", ".join(filter(None, words))


def tell_bandwidth(mbu: float | None) -> str:
    """Return the share of the memory's bandwidth; what exceeds it comes out of caches, which small models fit in."""
    if mbu is None:
        return ""
    return (
        f"{mbu:.0%} of the memory bandwidth"
        if mbu <= 1
        else "more than the memory bandwidth, out of caches"
    )


def generated(document: RunDocument) -> list[str]:
    """Return a line for each arm and batch size with what its generated text is like; none for another task."""
    lines = [
        f"  {entry.arm} @{cell.batch_size}: {cell.throughput.value:.0f} tokens/s, {words}"
        for entry in document.workflows
        for cell in entry.cells
        if entry.rank is not None and (words := words_of_generation(cell.generation))
    ]
    return ["Generated text:", *lines] if lines else []
