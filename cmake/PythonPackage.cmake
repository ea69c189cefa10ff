# python_package(NAME): makes build/python/NAME importable: the files of python/NAME beside the libraries, as links, so
# that an edit needs no build.
function(python_package name)
    file(GLOB files CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/python/${name}/*)
    file(MAKE_DIRECTORY ${CLPRIM_PYTHON_DIR}/${name})
    foreach(file IN LISTS files)
        get_filename_component(base ${file} NAME)
        file(CREATE_LINK ${file} ${CLPRIM_PYTHON_DIR}/${name}/${base} SYMBOLIC)
    endforeach()
endfunction()
