/* SPDX-License-Identifier: MIT
 *
 * Libraries loaded at run time. The loader is used if it searches absolute folders only. If its list has other folders,
 * this file goes through the list itself, and names the library by its full path.
 */
#define _GNU_SOURCE
#include "core/library.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#ifdef __GLIBC__

/* The folders that the loader searches for this library, or for the program that it is linked into. */
static Dl_serinfo *search_list(void) {
  Dl_info self;
  Dl_serinfo size, *list = NULL;
  void *handle = NULL;
  if (dladdr((void *)(size_t)&adji_library_open, &self) && self.dli_fname)
    handle = dlopen(self.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  if (!handle) handle = dlopen(NULL, RTLD_LAZY);
  if (!handle) return NULL;
  if (!dlinfo(handle, RTLD_DI_SERINFOSIZE, &size)) list = malloc(size.dls_size);
  if (list) {
    *list = size;
    if (dlinfo(handle, RTLD_DI_SERINFOSIZE, list) || dlinfo(handle, RTLD_DI_SERINFO, list)) {
      free(list);
      list = NULL;
    }
  }
  dlclose(handle);
  return list;
}

static bool is_absolute(const Dl_serinfo *list, unsigned i) {
  return list->dls_serpath[i].dls_name && list->dls_serpath[i].dls_name[0] == '/';
}

static bool all_absolute(const Dl_serinfo *list) {
  for (unsigned i = 0; i < list->dls_cnt; i++)
    if (!is_absolute(list, i)) return false;
  return true;
}

static void *open_in(const char *folder, const char *name) {
  char path[4096];
  int length = snprintf(path, sizeof path, "%s/%s", folder, name);
  return length > 0 && (size_t)length < sizeof path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
}

static void *open_with(const char *folder, const char *name, const char *needed) {
  if (needed) open_in(folder, needed); /* it stays loaded, so its name resolves to this file */
  return open_in(folder, name);
}

void *adji_library_open(const char *name, const char *needed) {
  /* The usual folders of CUDA. The loader knows them from its cache, which cannot be queried. */
  static const char *const usual[] = {"/usr/local/cuda/lib64", "/opt/cuda/lib64"};
  void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD); /* if the process has loaded it already */
  if (library) return library;
  Dl_serinfo *list = search_list();
  if (!list || all_absolute(list)) {
    free(list);
    return dlopen(name, RTLD_NOW | RTLD_LOCAL);
  }
  for (unsigned i = 0; i < list->dls_cnt && !library; i++)
    if (is_absolute(list, i)) library = open_with(list->dls_serpath[i].dls_name, name, needed);
  for (unsigned i = 0; i < sizeof usual / sizeof *usual && !library; i++)
    library = open_with(usual[i], name, needed);
  free(list);
  return library;
}

#else

void *adji_library_open(const char *name, const char *needed) {
  (void)needed;
  return dlopen(name, RTLD_NOW | RTLD_LOCAL);
}

#endif
