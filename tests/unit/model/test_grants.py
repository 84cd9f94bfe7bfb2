from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heliograph.model.acls import Acl, Operation, Pattern, Permission, Resource, fence_rule
from heliograph.model.blueprint import Ours, Rules, Seen, draw
from heliograph.model.grants import follow, mirrored_acls
from heliograph.model.mirrors import SettingRules

MIRRORS = {"orders": "paris.orders", "orders.eu": "paris.orders.eu", "pay": "paris.pay"}


def acl(
    name: str,
    operation: Operation = Operation.READ,
    pattern: Pattern = Pattern.LITERAL,
    permission: Permission = Permission.ALLOW,
) -> Acl:
    return Acl(Resource.TOPIC, name, "User:app", operation, permission, pattern)


def mirrored(*acls: Acl, naming: str = "{source}.{topic}") -> set[Acl]:
    return mirrored_acls(acls, MIRRORS, naming, "paris")


def test_who_may_read_a_topic_may_read_its_mirror() -> None:
    assert mirrored(acl("orders")) == {acl("paris.orders")}
    assert mirrored(acl("orders", Operation.DESCRIBE)) == {acl("paris.orders", Operation.DESCRIBE)}


def test_nobody_may_change_a_mirror() -> None:
    for operation in (Operation.WRITE, Operation.DELETE, Operation.ALTER, Operation.ALTER_CONFIGS):
        assert mirrored(acl("orders", operation)) == set()
    assert mirrored(acl("orders", Operation.ALL)) == {acl("paris.orders")}


def test_what_is_denied_stays_denied() -> None:
    denied = acl("orders", Operation.WRITE, permission=Permission.DENY)
    assert mirrored(denied) == {acl("paris.orders", Operation.WRITE, permission=Permission.DENY)}


def test_a_fence_is_not_mirrored() -> None:
    everybody = acl("*", Operation.WRITE, permission=Permission.DENY)
    assert mirrored(fence_rule("orders"), replace(everybody, principal="User:*")) == set()


@pytest.mark.parametrize("closed", [{}, {"orders": "orders"}], ids=["open", "closed"])
def test_a_fence_that_was_mirrored_is_taken_back_and_one_of_others_is_not(
    closed: dict[str, str],
) -> None:
    fence, read = fence_rule("orders"), acl("orders")
    rules = Rules("{topic}", "paris", "target", SettingRules())
    seen = Seen({}, {}, source_acls=[fence], target_acls=[fence, read])
    mirrored_before = draw(seen, rules, Ours(noted=frozenset([fence, read]), closed=closed)).grants
    assert mirrored_before is not None and mirrored_before.grant == ()
    assert set(mirrored_before.revoke) == ({fence} if closed else {fence, read})
    of_others = draw(seen, rules, Ours(closed=closed)).grants
    assert of_others is not None and of_others.revoke == ()


def test_a_prefix_follows_where_names_allow_it() -> None:
    prefixed = acl("orders", pattern=Pattern.PREFIXED)
    assert mirrored(prefixed) == {acl("paris.orders", pattern=Pattern.PREFIXED)}
    assert mirrored(prefixed, naming="{topic}.copy") == {
        acl("paris.orders"),
        acl("paris.orders.eu"),
    }
    assert mirrored(acl("other", pattern=Pattern.PREFIXED)) == set()


def test_a_rule_for_any_topic_is_for_the_mirrors_alone() -> None:
    assert mirrored(acl("*")) == {acl(mirror) for mirror in MIRRORS.values()}


def test_rules_of_other_topics_and_resources_are_left_alone() -> None:
    group = Acl(Resource.GROUP, "orders", "User:app", Operation.READ)
    assert mirrored(acl("unrelated"), group) == set()


def test_a_rule_is_noted_before_it_is_granted() -> None:
    rule = acl("m")
    first = follow([rule], [], [])
    assert not first.grant and first.noted == frozenset([rule])
    second = follow([rule], [], first.noted)
    assert second.grant == (rule,) and second.noted == frozenset([rule])


def test_removals_are_followed_for_our_own_rules_only() -> None:
    ours, theirs = acl("m"), acl("n")
    after = follow([], [ours, theirs], {ours})
    assert after.revoke == (ours,)
    assert follow([], [theirs], after.noted).noted == frozenset()


RULES = st.sets(st.sampled_from([acl(name) for name in "abcdef"]))


@given(RULES, RULES, RULES)
def test_what_was_there_before_us_is_never_revoked(
    wanted: set[Acl], there: set[Acl], later: set[Acl]
) -> None:
    before, noted = frozenset(there), frozenset[Acl]()
    for now in (wanted, wanted, later, later, set()):
        step = follow(now, there, noted)
        assert set(step.grant) <= noted, "granted without being noted"
        there = (there | set(step.grant)) - set(step.revoke)
        noted = step.noted
        assert before <= there
    step = follow(set(), there, noted)
    assert (there | set(step.grant)) - set(step.revoke) == before
