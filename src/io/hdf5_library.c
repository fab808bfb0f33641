/* SPDX-License-Identifier: MIT
 *
 * Finds the HDF5 library of the system, checks its version, looks up its functions, and saves and restores its global
 * settings.
 */
#define _GNU_SOURCE
#include "io/hdf5_library.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/library.h"

/* Newest first: 1.14, 1.12, 1.10. Debian has a separate name for the library without MPI. Names without a slash are
 * searched in the system's folders, not in the current one. */
static const char *const NAMES[] = {"libhdf5_serial.so.310", "libhdf5.so.310",        "libhdf5_serial.so.200",
                                    "libhdf5.so.200",        "libhdf5_serial.so.103", "libhdf5.so.103"};
enum { NAME_COUNT = sizeof NAMES / sizeof *NAMES };

/* One for the process, like the library. The turn guards all of it. */
static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
static struct {
  bool usable;
  adji_hdf5 functions;
  /* The process's settings before adji_hdf5_enter. */
  adji_h5_print print;
  void *print_user;
  unsigned plugins;
} library;

/* ---- Loading ------------------------------------------------------------------------------------- */

static adj_status find_symbol(void *handle, const char *name, void *to, size_t size) {
  void *found = dlsym(handle, name);
  if (!found) return adji_fail(ADJ_E_UNSUPPORTED, "has no %s", name);
  memcpy(to, &found, size);
  return ADJ_OK;
}

static adj_status find_functions(void *handle, adji_hdf5 *h5) {
  adj_status status = ADJ_OK;
#define FIND(result, name, parameters) \
  if (!status) status = find_symbol(handle, "H5" #name, (void *)&h5->name, sizeof h5->name);
  ADJI_HDF5_FUNCTIONS(FIND)
#undef FIND
  if (!status && find_symbol(handle, "H5Ovisit3", (void *)&h5->Ovisit, sizeof h5->Ovisit))
    status = find_symbol(handle, "H5Ovisit2", (void *)&h5->Ovisit, sizeof h5->Ovisit);
  return status;
}

/* Called after H5open: before it, the variables hold no ids. */
static adj_status find_ids(void *handle, adji_hdf5 *h5) {
  adj_status status = ADJ_OK;
  adji_hid *id = NULL;
#define FIND(name)                                                                    \
  if (!status) status = find_symbol(handle, "H5" #name "_g", (void *)&id, sizeof id); \
  if (!status) h5->name = *id;
  ADJI_HDF5_IDS(FIND)
#undef FIND
  return status;
}

static adj_status check_version(const adji_hdf5 *h5) {
  unsigned major = 0, minor = 0, release = 0;
  if (h5->get_libversion(&major, &minor, &release) < 0)
    return adji_fail(ADJ_E_UNSUPPORTED, "does not know its version");
  bool known = major == 1 && ((minor == 10 && release >= 3) || minor == 12 || minor == 14);
  if (known) return ADJ_OK;
  return adji_fail(ADJ_E_UNSUPPORTED, "is version %u.%u.%u, and only 1.10.3 and later, 1.12 and 1.14 can be used",
                   major, minor, release);
}

/* The library stays loaded even if it is not used: it has handlers that run at exit. */
static adj_status try_library(const char *name, bool *loaded) {
  void *handle = strchr(name, '/') ? dlopen(name, RTLD_NOW | RTLD_LOCAL) : adji_library_open(name, NULL);
  *loaded = handle != NULL;
  const char *why = handle ? NULL : dlerror();
  if (!handle) return adji_fail(ADJ_E_UNSUPPORTED, "cannot be loaded: %s", why ? why : "it is in no system folder");
  adji_hdf5 *h5 = &library.functions;
  adj_status status = find_functions(handle, h5);
  if (!status) status = check_version(h5);
  if (!status && h5->open() < 0) status = adji_fail(ADJ_E_UNSUPPORTED, "does not start");
  if (!status) status = find_ids(handle, h5);
  library.usable = !status;
  return status;
}

/* Refuses variables that make H5open load code before that can be forbidden. */
static adj_status check_environment(void) {
  static const char *const variables[] = {"HDF5_VOL_CONNECTOR", "HDF5_DRIVER"};
  for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
    const char *value = getenv(variables[i]);
    if (value && *value)
      return adji_fail(ADJ_E_UNSUPPORTED,
                       "hdf5: %s is set in the environment, which makes HDF5 load other code; unset it", variables[i]);
  }
  return ADJ_OK;
}

static adj_status load_named(const char *path) {
  bool loaded;
  if (!strcmp(path, "none"))
    return adji_fail(ADJ_E_UNSUPPORTED,
                     "is an HDF5 file, and ADJOIN_HDF5=none says not to read these; save the points as .npy");
  if (path[0] != '/')
    return adji_fail(ADJ_E_UNSUPPORTED, "hdf5: ADJOIN_HDF5 is \"%.200s\", and must be a path from / on", path);
  if (!try_library(path, &loaded)) return ADJ_OK;
  char reason[512];
  snprintf(reason, sizeof reason, "%s", adj_last_error());
  return adji_fail(ADJ_E_UNSUPPORTED, "hdf5: ADJOIN_HDF5: %.300s %s", path, reason);
}

static adj_status load_library(void) {
  adj_status status = check_environment();
  if (status) return status;
  const char *chosen = secure_getenv("ADJOIN_HDF5");
  if (chosen && *chosen) return load_named(chosen);
  char unusable[512] = "";
  for (int i = 0; i < NAME_COUNT; i++) {
    bool loaded;
    if (!try_library(NAMES[i], &loaded)) return ADJ_OK;
    if (loaded && !*unusable) snprintf(unusable, sizeof unusable, "; %s %s", NAMES[i], adj_last_error());
  }
  return adji_fail(
      ADJ_E_UNSUPPORTED,
      "is an HDF5 file, and this machine has no HDF5 library that can be used%s. Install it (Debian, "
      "Ubuntu: apt-get install libhdf5-dev; Fedora: dnf install hdf5), or let ADJOIN_HDF5 be its path, or save "
      "the points as .npy",
      unusable);
}

/* ---- Turns ----------------------------------------------------------------------------------------- */

adj_status adji_hdf5_enter(const adji_hdf5 **out) {
  pthread_mutex_lock(&turn);
  adj_status status = library.usable ? ADJ_OK : load_library();
  if (status) {
    pthread_mutex_unlock(&turn);
    return status;
  }
  adji_hdf5 *h5 = &library.functions;
  h5->Eget_auto2(ADJI_H5_DEFAULT, &library.print, &library.print_user);
  h5->Eset_auto2(ADJI_H5_DEFAULT, NULL, NULL); /* this library never prints */
  if (h5->PLget_loading_state(&library.plugins) < 0) library.plugins = 0;
  h5->PLset_loading_state(0); /* nor runs code that a file or the environment names */
  *out = h5;
  return ADJ_OK;
}

void adji_hdf5_leave(void) {
  const adji_hdf5 *h5 = &library.functions;
  h5->PLset_loading_state(library.plugins);
  h5->Eset_auto2(ADJI_H5_DEFAULT, library.print, library.print_user);
  pthread_mutex_unlock(&turn);
}
