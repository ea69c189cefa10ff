# What shortens a build: ccache where there is one, precompiled headers, files compiled together; and how many jobs run
# at a time.

# ccache passes over files with precompiled headers unless told that their macros and dates do not matter, and reads a
# precompiled header anew for every file unless it may remember it. It trusts the compiler's list of headers instead of
# preprocessing each file itself, which took a sixth of a first build.
find_program(CCACHE ccache)
if(CCACHE)
    set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
        CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime CCACHE_INODECACHE=1
        CCACHE_DEPEND=1 ${CCACHE})
endif()

# precompiled_headers(TARGET HEADER...): what most files of a target include.
function(precompiled_headers target)
    if(NOT CLPRIM_PRECOMPILED_HEADERS)
        return()
    endif()
    target_precompile_headers(${target} PRIVATE ${ARGN})
    precompiled_header_options(${target})
endfunction()

# precompiled_headers_of(TARGET OTHER): the same ones as another target's, which has the same compile options.
function(precompiled_headers_of target other)
    if(CLPRIM_PRECOMPILED_HEADERS)
        target_precompile_headers(${target} REUSE_FROM ${other})
        precompiled_header_options(${target})
    endif()
endfunction()

function(precompiled_header_options target)
    # The same bytes for the same text, and no reading of the headers when ccache only preprocesses.
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
        target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-fpch-preprocess>)
    elseif(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
        target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:SHELL:-Xclang -fno-pch-timestamp>")
    endif()
endfunction()

# compiled_together(TARGET FILE...): eight files at a time as one, where reading headers and making the same templates
# takes more than half of each file's time. CLPRIM_UNITY_BUILD=OFF compiles each alone, for work on them.
function(compiled_together target)
    if(NOT CLPRIM_UNITY_BUILD)
        return()
    endif()
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
    set(count 0)
    foreach(file IN LISTS ARGN)
        math(EXPR batch "${count} / 8")
        math(EXPR count "${count} + 1")
        set_source_files_properties(${file} PROPERTIES UNITY_GROUP ${batch})
    endforeach()
endfunction()

# A job takes up to a gigabyte: more of them than memory holds would swap.
cmake_host_system_information(RESULT CLPRIM_MEMORY QUERY TOTAL_PHYSICAL_MEMORY)
math(EXPR CLPRIM_COMPILE_JOBS "${CLPRIM_MEMORY} / 1200")
if(CLPRIM_COMPILE_JOBS LESS 1)
    set(CLPRIM_COMPILE_JOBS 1)
endif()
set_property(GLOBAL APPEND PROPERTY JOB_POOLS compile=${CLPRIM_COMPILE_JOBS})
set(CMAKE_JOB_POOL_COMPILE compile)
