"""ImageDecoder and the readers of images behind it against Pillow."""
import io

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
Image = pytest.importorskip("PIL.Image")
clprim = pytest.importorskip("clprim")
from onnx import TensorProto, helper


def decode(data, pixel_format="RGB"):
    node = helper.make_node("ImageDecoder", ["file"], ["image"], pixel_format=pixel_format)
    graph = helper.make_graph([node], "test", [helper.make_tensor_value_info("file", TensorProto.UINT8, ["n"])],
                              [helper.make_tensor_value_info("image", TensorProto.UINT8, ["h", "w", "c"])])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    try:
        return clprim.Session(model).run({"file": np.frombuffer(data, np.uint8)})["image"]
    except NotImplementedError:
        if data[8:12] == b"WEBP":                        # libwebp is optional
            pytest.skip("built without WebP")
        raise


def picture(mode="RGB", width=37, height=23):
    """Smooth, with an edge; a width that no row padding fits by chance."""
    y, x = np.mgrid[:height, :width]
    planes = np.stack([6 * x, 10 * y, 255 * (x > 20), 200 + x], -1).clip(0, 255).astype(np.uint8)
    return Image.fromarray(planes,
                           "RGBA").convert("RGB").convert(mode) if mode != "RGBA" else Image.fromarray(planes, "RGBA")


def saved(image, kind, **options):
    stream = io.BytesIO()
    image.save(stream, kind, **options)
    return stream.getvalue()


FILES = [("PNG", "RGB", {}), ("PNG", "L", {}), ("PNG", "P", {}), ("PNG", "1", {}), ("PNG", "RGBA", {}),
         ("PNG", "LA", {}),
         ("JPEG", "RGB", {"quality": 90}), ("JPEG", "RGB", {"subsampling": 0}), ("JPEG", "L", {}),
         ("JPEG", "RGB", {"progressive": True}),
         ("BMP", "RGB", {}), ("BMP", "L", {}), ("BMP", "P", {}), ("BMP", "1", {}), ("BMP", "RGBA", {}),
         ("PPM", "RGB", {}), ("PPM", "L", {}), ("PPM", "1", {}), ("WEBP", "RGB", {"lossless": True}),
         ("WEBP", "RGBA", {"lossless": True})]


@pytest.mark.parametrize("pixel_format", ["RGB", "BGR", "Grayscale"])
@pytest.mark.parametrize("kind, mode, options", FILES,
                         ids=[f"{kind}-{mode}-{i}" for i, (kind, mode, _) in enumerate(FILES)])
def test_files(kind, mode, options, pixel_format):
    data = saved(picture(mode), kind, **options)
    want = Image.open(io.BytesIO(data)).convert("RGB")
    want = np.array(want.convert("L"))[..., None] if pixel_format == "Grayscale" else np.array(want)
    got = decode(data, pixel_format)
    assert got.dtype == np.uint8 and got.shape == want.shape
    np.testing.assert_array_equal(got, want[..., ::-1] if pixel_format == "BGR" else want)


def test_cmyk():
    """Pillow rounds the product of the inks by its own rule: one step of difference."""
    data = saved(picture("CMYK"), "JPEG", quality=95)
    want = np.array(Image.open(io.BytesIO(data)).convert("RGB")).astype(int)
    assert np.abs(decode(data).astype(int) - want).max() <= 1


@pytest.mark.parametrize("header, body", [
    (b"P1\n# a comment\n3 2\n", b"1 0 1\n010"), (b"P2 3 2 15 ", b"0 1 2 3 4 15"),
    (b"P3\n3\t2\n255\n", b" ".join(b"%d" % (14 * i) for i in range(18))),
    (b"P5 3 2 65535\n", bytes(range(0, 120, 10))), (b"P6 3 2 # width and height\n100 ", bytes(range(18))),
    (b"P4 3 2\n", b"\xa0\x40")])
def test_portable_maps(header, body):
    want = np.array(Image.open(io.BytesIO(header + body)).convert("RGB" if header[1:2] in b"36" else "L")).astype(int)
    if header.startswith(b"P5"):                         # Pillow keeps 16 bits, clipped by the conversion
        want = np.frombuffer(body, ">u2").reshape(2, 3) / 257
    want = want if want.ndim == 3 else want[..., None].repeat(3, -1)
    assert np.abs(decode(header + body).astype(int) - want).max() <= 0.5


def bitmap(bits, pixels, width, height, masks=None, compression=0, palette=b"", header=40):
    info = np.array([header, width, height], "<i4").tobytes() + np.array([1, bits], "<u2").tobytes()
    info += np.array([compression, 0, 0, 0, len(palette) // 4, 0], "<u4").tobytes()
    info += np.array(masks or [], "<u4").tobytes() + palette
    begin = 14 + len(info)
    return b"BM" + np.array([begin + len(pixels), 0, begin], "<u4").tobytes() + info + pixels


def test_bitmaps_of_other_layouts():
    """16 bits, masks, rows from the top, 4 bits: what Pillow writes none of, but reads."""
    shorts = np.arange(0, 6 * 5000, 5000, np.uint16).reshape(2, 3)
    rows = np.pad(shorts, ((0, 0), (0, 1))).tobytes()
    nibbles = bytes([0x12, 0x30, 0, 0, 0x31, 0x20, 0, 0])
    palette = np.array([[0, 0, 0, 0], [255, 0, 10, 0], [0, 200, 0, 0], [7, 8, 9, 0]], "u1").tobytes()
    for data in (bitmap(16, rows, 3, 2), bitmap(16, rows, 3, -2), bitmap(16, rows, 3, 2, [0xf800, 0x7e0, 0x1f], 3),
                 bitmap(4, nibbles, 3, 2, palette=palette)):
        want = np.array(Image.open(io.BytesIO(data)).convert("RGB")).astype(int)
        assert np.abs(decode(data).astype(int) - want).max() <= 1       # of 5 bits made 8


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "BMP", "PPM", "WEBP"])
def test_damaged_files_give_an_empty_image(kind):
    data = saved(picture(), kind)
    for broken in (data[:len(data) // 3], data[:9], data[:2] + bytes(60), b"", bytes(range(100))):
        if kind == "JPEG" and broken == data[:len(data) // 3]:
            continue                                     # libjpeg fills in what is missing
        assert decode(broken).shape == (0, 0, 3)
        assert decode(broken, "Grayscale").shape == (0, 0, 1)


def test_noise_never_crashes():
    rng = np.random.default_rng(0)
    for kind in ("PNG", "JPEG", "BMP", "PPM", "WEBP"):
        data = np.frombuffer(saved(picture(), kind), np.uint8)
        for _ in range(60):
            noisy = data.copy()
            places = rng.integers(0, min(len(data), 200), rng.integers(1, 6))
            noisy[places] = rng.integers(0, 256, len(places))
            assert decode(noisy.tobytes()).ndim == 3


def test_formats_that_are_not_read_are_errors():
    for kind in ("TIFF", "JPEG2000"):
        with pytest.raises(NotImplementedError, match="ImageDecoder: images in the format .* are not read"):
            decode(saved(picture(), kind))


def test_errors():
    with pytest.raises(ValueError, match="pixel_format is HSV, expected RGB, BGR or Grayscale"):
        decode(saved(picture(), "PNG"), "HSV")
    node = helper.make_node("ImageDecoder", ["file"], ["image"])
    graph = helper.make_graph([node], "test", [helper.make_tensor_value_info("file", TensorProto.FLOAT, ["n"])],
                              [helper.make_tensor_value_info("image", TensorProto.UINT8, ["h", "w", "c"])])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    with pytest.raises(ValueError, match=r"expected the bytes of a file, uint8 \[n\]"):
        clprim.Session(model).run({"file": np.zeros(3, "f")})
