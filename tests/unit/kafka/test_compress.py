"""Each codec as Java, librdkafka and we write it; damage and bombs."""

import gzip
import struct
import zlib

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heliograph.errors import CorruptBatch
from heliograph.kafka.compress import Codec, compress, decompress

PACKING = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]
XERIAL = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)

payloads = st.one_of(
    st.binary(min_size=1, max_size=300),
    st.builds(lambda piece, times: piece * times, st.binary(min_size=1), st.integers(1, 4_000)),
)


@given(payloads, st.sampled_from(Codec))
def test_what_is_packed_comes_back(payload: bytes, codec: Codec) -> None:
    assert decompress(compress(payload, codec), codec) == payload


@pytest.mark.parametrize("codec", PACKING)
def test_packing_makes_records_smaller(codec: Codec) -> None:
    payload = b"a record much like the next " * 10_000
    assert len(compress(payload, codec)) < len(payload) / 10
    assert decompress(compress(payload, codec), codec) == payload


@pytest.mark.parametrize("size", [1, 65_536, 65_537, 5_000_000])
def test_lz4_frames_have_independent_blocks(size: int) -> None:
    frame = bytes(compress(bytes(size), Codec.LZ4))
    magic, flags = struct.unpack_from("<IB", frame)
    assert magic == 0x184D2204
    assert flags >> 6 == 1, "frame version"
    assert flags & 0x20, "Java refuses linked blocks"


def test_linked_lz4_frames_are_read_too() -> None:
    payload = b"linked blocks " * 50_000
    packer = cramjam.lz4.Compressor(1, content_checksum=True, block_linked=True)
    packer.compress(payload)
    frame = bytes(packer.finish())
    assert not frame[4] & 0x20
    assert decompress(frame, Codec.LZ4) == payload


def test_snappy_is_written_in_the_stream_format_of_java() -> None:
    payload = bytes(range(256)) * 300
    packed = bytes(compress(payload, Codec.SNAPPY))
    assert packed.startswith(XERIAL)
    (length,) = struct.unpack_from(">i", packed, 16)
    assert cramjam.snappy.decompress_raw_len(packed[20 : 20 + length]) == 32_768


def test_bare_snappy_blocks_are_read() -> None:
    payload = b"as librdkafka may write it " * 5_000
    assert decompress(bytes(cramjam.snappy.compress_raw(payload)), Codec.SNAPPY) == payload


def test_gzip_and_zstd_of_several_members_are_read() -> None:
    assert decompress(gzip.compress(b"one ") + gzip.compress(b"two"), Codec.GZIP) == b"one two"
    frames = bytes(cramjam.zstd.compress(b"one ")) + bytes(cramjam.zstd.compress(b"two"))
    assert decompress(frames, Codec.ZSTD) == b"one two"


@pytest.mark.parametrize("codec", PACKING)
def test_a_bomb_is_refused_at_the_limit(codec: Codec) -> None:
    packed = bytes(compress(bytes(1 << 20), codec))
    assert len(decompress(packed, codec, limit=1 << 20)) == 1 << 20
    with pytest.raises(CorruptBatch, match="more than 1048575 bytes"):
        decompress(packed, codec, limit=(1 << 20) - 1)


def test_a_snappy_block_that_states_gigabytes_is_refused_before_allocating() -> None:
    with pytest.raises(CorruptBatch, match="more than"):
        decompress(b"\xff\xff\xff\xff\x0f", Codec.SNAPPY)


@pytest.mark.parametrize("ratio", [10, 1_000, 50_000])
@pytest.mark.parametrize("codec", PACKING)
def test_high_ratios_within_the_limit_are_read(codec: Codec, ratio: int) -> None:
    # Also holds cramjam to the words by which a full buffer is told from damage.
    payload = bytes(ratio * 100)
    assert decompress(compress(payload, codec), codec) == payload


@given(st.binary(max_size=100), st.sampled_from(PACKING), st.booleans())
def test_garbage_is_corrupt_or_something(garbage: bytes, codec: Codec, framed: bool) -> None:
    start = {
        Codec.GZIP: b"\x1f\x8b\x08",
        Codec.SNAPPY: XERIAL,
        Codec.LZ4: bytes.fromhex("04224d186040"),
        Codec.ZSTD: bytes.fromhex("28b52ffd"),
    }
    packed = start[codec] + garbage if framed else garbage
    try:
        decompress(packed, codec, limit=1 << 20)
    except CorruptBatch as error:
        assert codec.name.lower() in error.message


@given(payloads, st.sampled_from(PACKING), st.data())
def test_cut_data_is_corrupt(payload: bytes, codec: Codec, data: st.DataObject) -> None:
    packed = bytes(compress(payload, codec))
    cut = data.draw(st.integers(1, len(packed) - 1))
    try:
        found = decompress(packed[:cut], codec)
    except CorruptBatch:
        return
    # Between two blocks of the snappy stream format there is nothing to miss the rest by.
    assert codec is Codec.SNAPPY and payload.startswith(bytes(found))


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_unknown_codecs_are_corrupt(codec: int) -> None:
    with pytest.raises(CorruptBatch, match=f"codec {codec}"):
        decompress(b"x", codec)
    with pytest.raises(CorruptBatch, match=f"codec {codec}"):
        compress(b"x", codec)


def test_gzip_is_what_zlib_reads() -> None:
    assert zlib.decompress(compress(b"payload", Codec.GZIP), 31) == b"payload"
