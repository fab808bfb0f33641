# SPDX-License-Identifier: MIT
# Refuses flags that change results: results must have the same bits everywhere (docs/exactness.md).

# Flags of GCC, Clang and nvcc, as regular expressions. -ffp-contract and -fmad are not here, because our own flags come
# later and override them.
set(adjoin_inexact_flags
  -ffast-math -Ofast -funsafe-math-optimizations -fassociative-math -freciprocal-math -ffinite-math-only
  -fno-signed-zeros -fno-honor-nans -fno-honor-infinities -fapprox-func -fsingle-precision-constant
  -ffp-model=fast -ffp-model=aggressive -fp-model=fast -fdenormal-fp-math=preserve-sign
  -fdenormal-fp-math=positive-zero -fdenormal-fp-math-f32=preserve-sign -fdenormal-fp-math-f32=positive-zero
  -mdaz-ftz -mrecip -mrecip=[^ ]* -mfpmath=387 -mfpmath=both -mfpmath=sse,387 -mlow-precision-div -mlow-precision-sqrt
  -mlow-precision-recip-sqrt
  -use_fast_math --use_fast_math -ftz=true --ftz=true -prec-div=false --prec-div=false -prec-sqrt=false
  --prec-sqrt=false)

# Finds the first such flag among some flags, also after -Xcompiler. The result is empty if there is none.
function(adjoin_find_inexact flags result)
  string(REPLACE ";" "|" any "${adjoin_inexact_flags}")
  string(REGEX MATCH "(^|[ ,;='\"])(${any})($|[ ,;'\"])" found "${flags}")
  set(${result} "${CMAKE_MATCH_2}" PARENT_SCOPE)
endfunction()

# Stops if one of the variables, also with the build type appended to its name, has such a flag.
function(adjoin_refuse_inexact)
  string(TOUPPER "${CMAKE_BUILD_TYPE}" type)
  foreach(variable IN LISTS ARGN)
    foreach(name ${variable} ${variable}_${type})
      adjoin_find_inexact("${${name}}" flag)
      if(flag)
        message(FATAL_ERROR "${name} has ${flag}, which changes results. They must be the same bits everywhere \
(docs/exactness.md): build without it")
      endif()
    endforeach()
  endforeach()
endfunction()
