/* SPDX-License-Identifier: MIT
 *
 * Libraries that are loaded when they are first needed, such as CUDA's.
 */
#ifndef ADJI_LIBRARY_H
#define ADJI_LIBRARY_H

#include "core/exact.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Loads a library by its name, such as "libcublas.so.13", from the folders that the system's loader searches: folders
 * that this library was linked with, LD_LIBRARY_PATH, the system's own. Never from the current folder, nor from one
 * relative to it: an empty entry in LD_LIBRARY_PATH, from a superfluous ":", is skipped. `needed`: a library that comes
 * with it and that it needs, or NULL; it is loaded first, from the same folder. NULL: not found; dlerror() says more.
 * The handle is for dlsym(). */
void *adji_library_open(const char *name, const char *needed);

#ifdef __cplusplus
}
#endif

#endif
