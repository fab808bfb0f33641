# SPDX-License-Identifier: MIT
"""Writes HDF5 files for the tests, through the C functions of the HDF5 library: h5py may not be installed, and does not
write what a hostile file holds. LIBRARY is None where there is no HDF5."""
import ctypes
import struct
import zlib
from ctypes import POINTER, c_char_p, c_int, c_int64, c_size_t, c_uint, c_uint64, c_void_p

NAMES = ("libhdf5_serial.so.310", "libhdf5.so.310", "libhdf5_serial.so.200", "libhdf5.so.200", "libhdf5_serial.so.103",
         "libhdf5.so.103")


def load():
    for name in NAMES:
        try:
            library = ctypes.CDLL(name)
        except OSError:
            continue
        library.H5open()
        return library
    return None


LIBRARY = load()
DEFAULT, TRUNCATE, UNLIMITED = 0, 2, 2 ** 64 - 1
SIZES = POINTER(c_uint64)
SIGNATURES = {
    "H5Fcreate": (c_int64, c_char_p, c_uint, c_int64, c_int64), "H5Fclose": (c_int, c_int64),
    "H5Screate_simple": (c_int64, c_int, SIZES, SIZES), "H5Sclose": (c_int, c_int64),
    "H5Sselect_hyperslab": (c_int, c_int64, c_int, SIZES, SIZES, SIZES, SIZES),
    "H5Pcreate": (c_int64, c_int64), "H5Pclose": (c_int, c_int64),
    "H5Pset_chunk": (c_int, c_int64, c_int, SIZES), "H5Pset_deflate": (c_int, c_int64, c_uint),
    "H5Pset_external": (c_int, c_int64, c_char_p, c_int64, c_uint64),
    "H5Pset_virtual": (c_int, c_int64, c_int64, c_char_p, c_char_p, c_int64),
    "H5Pset_filter": (c_int, c_int64, c_int, c_uint, c_size_t, c_void_p),
    "H5Pset_create_intermediate_group": (c_int, c_int64, c_uint),
    "H5Dcreate2": (c_int64, c_int64, c_char_p, c_int64, c_int64, c_int64, c_int64, c_int64), "H5Dclose": (c_int, c_int64),
    "H5Dwrite": (c_int, c_int64, c_int64, c_int64, c_int64, c_int64, c_char_p),
    "H5Dwrite_chunk": (c_int, c_int64, c_int64, c_uint, SIZES, c_size_t, c_char_p),
    "H5Lcreate_external": (c_int, c_char_p, c_char_p, c_int64, c_char_p, c_int64, c_int64),
    "H5Lcreate_soft": (c_int, c_char_p, c_int64, c_char_p, c_int64, c_int64),
}


def call(name, *arguments):
    function = getattr(LIBRARY, name)
    function.restype, *function.argtypes = SIGNATURES[name]
    result = function(*arguments)
    assert result >= 0, name
    return result


def version():
    numbers = [c_uint(), c_uint(), c_uint()]
    LIBRARY.H5get_libversion(*map(ctypes.byref, numbers))
    return tuple(number.value for number in numbers)


def constant(name):
    return c_int64.in_dll(LIBRARY, name + "_g").value


def sizes(*values):
    return (c_uint64 * len(values))(*values)


TYPES = {"f": "H5T_IEEE_F32LE", "d": "H5T_IEEE_F64LE", "b": "H5T_STD_I8LE"}


class File:
    """A file under construction."""

    def __init__(self, path):
        self.id = call("H5Fcreate", path.encode(), TRUNCATE, DEFAULT, DEFAULT)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        call("H5Fclose", self.id)

    def dataset(self, name, shape, letter="f", values=None, chunk=None, deflate=None, filter_id=None, external=None,
                virtual=None, packed_chunk=None, most=None):
        """values: numbers, or bytes. external: (file, offset). virtual: (file, dataset). packed_chunk: the bytes of the
        first chunk as they are stored. most: the largest shape."""
        kind = constant(TYPES[letter])
        space = call("H5Screate_simple", len(shape), sizes(*shape), sizes(*most) if most else None)
        properties = call("H5Pcreate", constant("H5P_CLS_DATASET_CREATE_ID"))
        links = call("H5Pcreate", constant("H5P_CLS_LINK_CREATE_ID"))
        call("H5Pset_create_intermediate_group", links, 1)
        if chunk:
            call("H5Pset_chunk", properties, len(chunk), sizes(*chunk))
        if deflate is not None:
            call("H5Pset_deflate", properties, deflate)
        if filter_id is not None:
            call("H5Pset_filter", properties, filter_id, 1, 0, None)  # 1: optional, or it could not be created
        if external:
            call("H5Pset_external", properties, external[0].encode(), external[1], 2 ** 63 if most else
                 struct.calcsize(letter) * shape[0] * (shape[1] if len(shape) > 1 else 1))
        if virtual:
            from_space = call("H5Screate_simple", len(shape), sizes(*shape), sizes(*most) if most else None)
            if most:  # as many rows as the source has, whenever it is asked
                for one in space, from_space:
                    call("H5Sselect_hyperslab", one, 0, sizes(0, 0), sizes(1, 1), sizes(UNLIMITED, 1), sizes(1, shape[1]))
            call("H5Pset_virtual", properties, space, virtual[0].encode(), virtual[1].encode(), from_space)
            call("H5Sclose", from_space)
        made = call("H5Dcreate2", self.id, name.encode(), kind, space, links, properties, DEFAULT)
        if values is not None:
            data = values if isinstance(values, bytes) else struct.pack(f"<{len(values)}{letter}", *values)
            call("H5Dwrite", made, kind, DEFAULT, DEFAULT, DEFAULT, data)
        if packed_chunk is not None:
            call("H5Dwrite_chunk", made, DEFAULT, 0, sizes(*[0] * len(shape)), len(packed_chunk), packed_chunk)
        call("H5Dclose", made)
        call("H5Pclose", links)
        call("H5Pclose", properties)
        call("H5Sclose", space)

    def external_link(self, name, file, target):
        call("H5Lcreate_external", file.encode(), target.encode(), self.id, name.encode(), DEFAULT, DEFAULT)

    def soft_link(self, name, target):
        call("H5Lcreate_soft", target.encode(), self.id, name.encode(), DEFAULT, DEFAULT)


def zeros_packed(size):
    """This many zeros, deflated a piece at a time."""
    packer = zlib.compressobj(9)
    parts, piece = [], bytes(1 << 20)
    for _ in range(size // len(piece)):
        parts.append(packer.compress(piece))
    parts.append(packer.compress(bytes(size % len(piece))))
    parts.append(packer.flush())
    return b"".join(parts)
