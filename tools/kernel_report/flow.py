"""Loops of a kernel by its flow: what lies between a label and a jump back to it need not be one."""
from __future__ import annotations

from .assembly import Instruction, Kernel


def blocks_of(kernel: Kernel) -> tuple[list[range], list[list[int]]]:
    """Basic blocks as ranges of instructions, and the blocks that may follow each."""
    instructions, count = kernel.instructions, len(kernel.instructions)
    starts = {0, *(at for at in kernel.labels.values() if at < count)}
    starts |= {at + 1 for at, i in enumerate(instructions) if (i.targets or not i.falls_through) and at + 1 < count}
    edges = [*sorted(starts), count]
    blocks = [range(a, b) for a, b in zip(edges, edges[1:])]
    number = {block.start: n for n, block in enumerate(blocks)}
    following = []
    for n, block in enumerate(blocks):
        last: Instruction = instructions[block.stop - 1]
        after = [number[kernel.labels[t]] for t in last.targets if kernel.labels.get(t, count) < count]
        if last.falls_through and n + 1 < len(blocks):
            after.append(n + 1)
        following.append(after)
    return blocks, following


def dominators(following: list[list[int]]) -> tuple[list[int], dict[int, int]]:
    """Order of the blocks that are reached, and the immediate dominator of each (Cooper, Harvey and Kennedy 2001)."""
    order, seen, stack = [], {0}, [(0, iter(following[0]))]
    while stack:
        block, rest = stack[-1]
        new = next((b for b in rest if b not in seen), None)
        if new is None:
            order.append(block)
            stack.pop()
        else:
            seen.add(new)
            stack.append((new, iter(following[new])))
    place = {block: n for n, block in enumerate(order)}   # postorder: the entry last
    before: dict[int, list[int]] = {block: [] for block in order}
    for block in order:
        for after in following[block]:
            before[after].append(block)
    parent = {0: 0}

    def common(a: int, b: int) -> int:
        while a != b:
            if place[a] < place[b]:
                a = parent[a]
            else:
                b = parent[b]
        return a

    changed = True
    while changed:
        changed = False
        for block in reversed(order[:-1]):
            known = [b for b in before[block] if b in parent]
            new = known[0]
            for other in known[1:]:
                new = common(new, other)
            if parent.get(block) != new:
                parent[block], changed = new, True
    return order, parent


def loops(kernel: Kernel) -> list[tuple[int, ...]]:
    """Each natural loop as the indices of its instructions, in their order in memory."""
    if not kernel.instructions:
        return []
    blocks, following = blocks_of(kernel)
    order, parent = dominators(following)
    reached = set(order)
    before: dict[int, list[int]] = {}
    for block in order:
        for after in following[block]:
            before.setdefault(after, []).append(block)

    def dominates(a: int, b: int) -> bool:
        while b != a and b != 0:
            b = parent[b]
        return b == a

    bodies: dict[int, set[int]] = {}
    for block in order:
        for head in following[block]:
            if not dominates(head, block):
                continue
            body, rest = bodies.setdefault(head, {head}), [block]
            while rest:
                one = rest.pop()
                if one not in body:
                    body.add(one)
                    rest += [b for b in before.get(one, []) if b in reached]
    return [tuple(at for block in sorted(body) for at in blocks[block]) for _, body in sorted(bodies.items())]
