"""The shared fixtures themselves: every later test stands on them."""

from __future__ import annotations

from redis import Redis
from sqlalchemy import text

from coven.store import migrate
from coven.store.engine import Store


def test_store_is_migrated_and_writable_on_both_databases(store: Store) -> None:
    migrate.require_usable(store)
    with store.write() as tx:
        tx.execute(text("CREATE TABLE mine (n INTEGER)"))


def test_each_test_has_a_database_of_its_own(store: Store) -> None:
    with store.write() as tx:
        tx.execute(text("CREATE TABLE mine (n INTEGER)"))


def test_broker_starts_empty(broker_url: str) -> None:
    with Redis(unix_socket_path=broker_url.removeprefix("redis+socket://")) as redis:
        assert redis.dbsize() == 0
        redis.set("left", "over")


def test_broker_starts_empty_again(broker_url: str) -> None:
    with Redis(unix_socket_path=broker_url.removeprefix("redis+socket://")) as redis:
        assert redis.dbsize() == 0
