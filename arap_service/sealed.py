"""Sealed columns: every row that holds what people or tools said has a data key of its own, wrapped by the key ring.

A value is sealed for its table, row and column, so that it opens nowhere else; removing the row removes the only key
that opens it. Which columns are sealed is a matter of `store/tables.py`. See design.md section 5.
"""

import json
from typing import Any, Self

from arap_service.protocol.sealing import DataKey, KeyRing, new_data_key


class RowSeal:
    """Seals and opens the columns of one row; `wrapped` goes into its `data_key` column."""

    def __init__(self, ring: KeyRing, wrapped: bytes, *, table: str, row_id: str) -> None:
        """Unwrap the data key; raises `SealBroken` when it is not the key of this row."""
        self.wrapped = wrapped
        self._place = f"{table}:{row_id}"
        self._key = DataKey(ring, wrapped, f"{self._place}:data_key")

    @classmethod
    def new(cls, ring: KeyRing, *, table: str, row_id: str) -> Self:
        """A fresh data key for a row that is about to be written."""
        return cls(ring, new_data_key(ring, aad=f"{table}:{row_id}:data_key"), table=table, row_id=row_id)

    def seal(self, column: str, value: object) -> bytes:
        """A JSON value, sealed for `column` of this row."""
        return self.seal_bytes(f"{self._place}:{column}", _dumped(value))

    def open(self, column: str, sealed: bytes) -> Any:
        """The JSON value that was sealed for `column` of this row.

        Raises:
            SealBroken: It was altered, or sealed for another place.
        """
        return json.loads(self._key.open(sealed, aad=f"{self._place}:{column}"))

    def seal_bytes(self, place: str, plaintext: bytes) -> bytes:
        """Bytes sealed under this row's key for a place that hangs on it, such as `delivery:msg_1:body_sealed`."""
        return self._key.seal(plaintext, aad=place)

    def seal_at(self, place: str, value: object) -> bytes:
        """A JSON value sealed under this row's key for a place that hangs on it, like `vote:v1:reason_sealed`."""
        return self.seal_bytes(place, _dumped(value))

    def open_at(self, place: str, sealed: bytes) -> Any:
        """The JSON value that was sealed for a place that hangs on this row.

        Raises:
            SealBroken: It was altered, or sealed for another place.
        """
        return json.loads(self._key.open(sealed, aad=place))


def _dumped(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
