# SPDX-License-Identifier: MIT
"""The parts of adjoin.h and adjoin_cuda.h that this package uses, for ctypes. A test compares them with the headers.

Structs have the names and fields of the C structs. FUNCTIONS gives the result type and then the argument types of each
function. Enumerations are ints.
"""

from __future__ import annotations

import ctypes as c
from typing import Any

u32, u64, i32, real, enum, size = c.c_uint32, c.c_uint64, c.c_int32, c.c_double, c.c_int, c.c_size_t
pointer, text = c.c_void_p, c.c_char_p

# Callbacks.
LOG = c.CFUNCTYPE(None, pointer, enum, text)
TRACE = c.CFUNCTYPE(None, pointer, pointer)
PROGRESS = c.CFUNCTYPE(c.c_int, pointer, pointer)
BEGIN = c.CFUNCTYPE(enum, pointer, u64, u64, pointer)
WRITE = c.CFUNCTYPE(enum, pointer, pointer)
END = c.CFUNCTYPE(None, pointer, enum)


class adj_ctx_options(c.Structure):
    _fields_ = [
        ("struct_size", u32),
        ("threads", u32),
        ("memory_limit", u64),
        ("device_memory_limit", u64),
        ("devices", c.POINTER(i32)),
        ("device_count", i32),
        ("reserved", u32),
        ("isa", text),
        ("log", LOG),
        ("log_user", pointer),
        ("trace", TRACE),
        ("trace_user", pointer),
    ]


class adj_device(c.Structure):
    _fields_ = [
        ("struct_size", u32),
        ("number", u32),
        ("name", c.c_char * 128),
        ("major", u32),
        ("minor", u32),
        ("multiprocessors", u32),
        ("driver", u32),
        ("runtime", u32),
        ("tensor_bits", u32),
        ("memory", u64),
        ("memory_free", u64),
    ]


class adj_points(c.Structure):
    _fields_ = [
        ("struct_size", u32),
        ("dim", u32),
        ("count", u64),
        ("data", pointer),
        ("type", enum),
        ("ownership", enum),
        ("row_stride", u64),
        ("column_stride", u64),
    ]


class adj_join_spec(c.Structure):
    _fields_ = [
        ("struct_size", u32),
        ("kind", enum),
        ("metric", enum),
        ("backend", enum),
        ("radius", real),
        ("p", real),
        ("k", u32),
        ("order", enum),
        ("flags", u32),
        ("reserved", u32),
        ("algorithm", text),
        ("tuning", text),
        ("angle", enum),
        ("unit", enum),
        ("sphere_radius", real),
        ("box", pointer),
        ("box_count", u32),
        ("reserved2", u32),
        ("radii", pointer),
        ("radius_count", u64),
        ("system", text),
    ]


class adj_estimate(c.Structure):
    _fields_ = [
        ("struct_size", u32),
        ("reserved", u32),
        ("pairs", real),
        ("candidates", real),
        ("result_bytes", real),
        ("seconds", real),
        ("count_seconds", real),
    ]


class adj_progress(c.Structure):
    _fields_ = [("phase", text), ("fraction", real), ("pairs", u64)]


class adj_run_control(c.Structure):
    _fields_ = [
        ("struct_size", u32),
        ("interval_ms", u32),
        ("progress", PROGRESS),
        ("user", pointer),
        ("max_pairs", u64),
    ]


class adj_rows(c.Structure):
    _fields_ = [
        ("first_row", u64),
        ("row_count", u64),
        ("offsets", pointer),
        ("ids", pointer),
        ("distances", pointer),
    ]


class adj_sink(c.Structure):
    _fields_ = [
        ("struct_size", u32),
        ("reserved", u32),
        ("user", pointer),
        ("begin", BEGIN),
        ("write", WRITE),
        ("end", END),
    ]


class adj_write_options(c.Structure):
    _fields_ = [
        ("struct_size", u32),
        ("counts", u32),
        ("format", text),
        ("distances", text),
        ("flags", u32),
        ("reserved", u32),
    ]


class adj_index_options(c.Structure):
    _fields_ = [
        ("struct_size", u32),
        ("metric", enum),
        ("backend", enum),
        ("angle", enum),
        ("unit", enum),
        ("box_count", u32),
        ("p", real),
        ("sphere_radius", real),
        ("box", pointer),
    ]


class adj_question(c.Structure):
    _fields_ = [
        ("struct_size", u32),
        ("kind", enum),
        ("radius", real),
        ("k", u32),
        ("order", enum),
        ("flags", u32),
        ("reserved", u32),
        ("radii", pointer),
        ("radius_count", u64),
        ("algorithm", text),
    ]


class adj_matrix(c.Structure):
    _fields_ = [
        ("struct_size", u32),
        ("type", enum),
        ("rows", u64),
        ("columns", u64),
        ("row_stride", u64),
        ("values", pointer),
    ]


class adj_lists(c.Structure):
    _fields_ = [
        ("struct_size", u32),
        ("type", enum),
        ("k", u32),
        ("reserved", u32),
        ("rows", u64),
        ("ids", pointer),
        ("sums", pointer),
    ]


class adj_dbscan_job(c.Structure):
    _fields_ = [
        ("struct_size", u32),
        ("reserved", u32),
        ("min_points", u64),
        ("weights", pointer),
        ("weight_count", u64),
        ("labels", pointer),
        ("core", pointer),
        ("clusters", pointer),
    ]


class adj_cuda_points(c.Structure):
    _fields_ = [
        ("struct_size", u32),
        ("dim", u32),
        ("count", u64),
        ("data", pointer),
        ("type", enum),
        ("reserved", u32),
        ("row_stride", u64),
        ("column_stride", u64),
    ]


class adj_cuda_select_options(c.Structure):
    _fields_ = [
        ("struct_size", u32),
        ("order", enum),
        ("largest", u32),
        ("reserved", u32),
        ("ids", pointer),
        ("algorithm", text),
    ]


# Structs that begin with struct_size, and have an _init function.
SIZED: list[type[c.Structure]] = [
    adj_ctx_options,
    adj_device,
    adj_points,
    adj_join_spec,
    adj_estimate,
    adj_run_control,
    adj_sink,
    adj_write_options,
    adj_index_options,
    adj_question,
    adj_matrix,
    adj_lists,
    adj_dbscan_job,
    adj_cuda_points,
    adj_cuda_select_options,
]
# Structs that the library passes to callbacks.
PASSED: list[type[c.Structure]] = [adj_progress, adj_rows]

# Names of the enumerators that are used.
ADJ_F32, ADJ_F64 = 1, 2
ADJ_BORROW = 2
ADJ_L2, ADJ_L1, ADJ_LINF, ADJ_LP, ADJ_COSINE, ADJ_DOT, ADJ_HAVERSINE = 1, 2, 3, 4, 5, 6, 7
ADJ_RANGE, ADJ_KNN = 1, 2
ADJ_BACKEND_AUTO, ADJ_BACKEND_CPU, ADJ_BACKEND_GPU, ADJ_BACKEND_HYBRID, ADJ_BACKEND_REFERENCE = 0, 1, 2, 3, 4
ADJ_ORDER_ID, ADJ_ORDER_DISTANCE, ADJ_ORDER_ANY = 0, 1, 2
ADJ_WITH_DISTANCE, ADJ_WITH_SELF, ADJ_ONE_WAY, ADJ_WITH_SUM = 1, 2, 4, 8
ADJ_DEGREES, ADJ_RADIANS = 0, 1
ADJ_UNIT_METRES, ADJ_UNIT_DEGREES, ADJ_UNIT_RADIANS = 0, 1, 2
ADJ_NO_CLOBBER, ADJ_NO_SYNC = 1, 2
ADJ_OK, ADJ_CANCELLED, ADJ_E_DATA, ADJ_E_UNSUPPORTED, ADJ_E_SINK = 0, 1, -20, -40, -50
ADJ_LOG_WARN, ADJ_LOG_INFO = 1, 2

FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "adj_last_error": (text,),
    "adj_status_name": (text, enum),
    "adj_status_text": (text, enum),
    "adj_version_number": (u32,),
    "adj_version_string": (text,),
    "adj_build_features": (text,),
    "adj_isa_name": (text, u32),
    "adj_device_describe": (enum, u32, pointer),
    "adj_ctx_create": (enum, pointer, pointer),
    "adj_ctx_destroy": (None, pointer),
    "adj_ctx_threads": (u32, pointer),
    "adj_ctx_memory_limit": (u64, pointer),
    "adj_ctx_memory_used": (u64, pointer),
    "adj_ctx_isa": (text, pointer),
    "adj_ctx_threads_from": (text, pointer),
    "adj_ctx_memory_from": (text, pointer),
    "adj_ctx_costs": (text, pointer),
    "adj_cancel": (None, pointer),
    "adj_dataset_create": (enum, pointer, pointer, pointer),
    "adj_dataset_destroy": (None, pointer),
    "adj_plan_create": (enum, pointer, pointer, pointer, pointer, pointer),
    "adj_plan_destroy": (None, pointer),
    "adj_plan_explain": (enum, pointer, pointer, size, pointer),
    "adj_plan_estimate": (enum, pointer, pointer),
    "adj_count": (enum, pointer, pointer, pointer, pointer, pointer),
    "adj_join": (enum, pointer, pointer, pointer, pointer, pointer),
    "adj_collect": (enum, pointer, pointer, pointer, pointer),
    "adj_stream": (enum, pointer, pointer, pointer, pointer),
    "adj_write": (enum, pointer, text, pointer, pointer, pointer),
    "adj_result_rows": (u64, pointer),
    "adj_result_pairs": (u64, pointer),
    "adj_result_offsets": (pointer, pointer),
    "adj_result_ids": (pointer, pointer),
    "adj_result_distances": (pointer, pointer),
    "adj_result_destroy": (None, pointer),
    "adj_index_create": (enum, pointer, pointer, pointer, pointer),
    "adj_index_destroy": (None, pointer),
    "adj_index_plan": (enum, pointer, pointer, pointer, pointer),
    "adj_index_nearest": (enum, pointer, pointer, u32, pointer, pointer, pointer),
    "adj_index_within": (enum, pointer, pointer, real, u32, pointer, pointer, pointer),
    "adj_select_k": (enum, pointer, pointer, u32, enum, pointer, pointer),
    "adj_split_weights": (enum, pointer, pointer, pointer, u64, pointer),
    "adj_split_create": (enum, pointer, pointer, pointer, pointer, u32, pointer),
    "adj_split_destroy": (None, pointer),
    "adj_split_regions": (u32, pointer),
    "adj_split_dim": (u32, pointer),
    "adj_split_save": (enum, pointer, pointer, u64, pointer),
    "adj_split_load": (enum, pointer, pointer, enum, u32, pointer, u64, pointer),
    "adj_split_home": (enum, pointer, pointer, pointer),
    "adj_split_bounds": (enum, pointer, pointer, pointer, pointer, pointer),
    "adj_split_set_bounds": (enum, pointer, pointer, pointer),
    "adj_split_halo": (enum, pointer, pointer, pointer, pointer, pointer, pointer),
    "adj_lists_merge": (enum, pointer, pointer, pointer),
    "adj_sums_report": (enum, pointer, enum, u64, pointer, pointer),
    "adj_sums_radii": (enum, pointer, enum, u64, pointer, pointer),
    "adj_dbscan": (enum, pointer, pointer, pointer, pointer, pointer, pointer),
    "adj_cuda_range_join": (enum, pointer, pointer, pointer, pointer, pointer, pointer),
    "adj_cuda_range_count": (enum, pointer, pointer, pointer, pointer, pointer, pointer, pointer),
    "adj_cuda_knn_join": (enum, pointer, pointer, pointer, pointer, pointer, pointer),
    "adj_cuda_result_rows": (u64, pointer),
    "adj_cuda_result_pairs": (u64, pointer),
    "adj_cuda_result_offsets": (pointer, pointer),
    "adj_cuda_result_ids": (pointer, pointer),
    "adj_cuda_result_distances": (pointer, pointer),
    "adj_cuda_result_destroy": (None, pointer, pointer),
    "adj_cuda_index_create": (enum, pointer, pointer, pointer, pointer, pointer),
    "adj_cuda_index_knn": (enum, pointer, pointer, pointer, pointer, pointer),
    "adj_cuda_index_range": (enum, pointer, pointer, pointer, pointer, pointer),
    "adj_cuda_index_count": (enum, pointer, pointer, pointer, pointer, pointer, pointer),
    "adj_cuda_select_k": (enum, pointer, pointer, u32, pointer, pointer, pointer, pointer),
}
for _struct in SIZED:
    FUNCTIONS[_struct.__name__ + "_init"] = (None, pointer, size)
