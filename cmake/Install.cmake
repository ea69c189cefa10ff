# What `cmake --install` puts where. Component clprim: the C++ library for find_package(clprim). Component python: the
# Python packages clprim and torch_ocl, which the wheel is made of.
include(CMakePackageConfigHelpers)

set(config_dir ${CMAKE_INSTALL_LIBDIR}/cmake/clprim)
install(TARGETS clprim EXPORT clprimTargets COMPONENT clprim
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} NAMELINK_COMPONENT clprim)
install(DIRECTORY ${CMAKE_SOURCE_DIR}/include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT clprim
    PATTERN torch_ocl EXCLUDE)
install(EXPORT clprimTargets NAMESPACE clprim:: DESTINATION ${config_dir} COMPONENT clprim)
configure_package_config_file(${CMAKE_SOURCE_DIR}/cmake/clprimConfig.cmake.in ${CMAKE_BINARY_DIR}/clprimConfig.cmake
    INSTALL_DESTINATION ${config_dir})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/clprimConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/clprimConfig.cmake ${CMAKE_BINARY_DIR}/clprimConfigVersion.cmake
    DESTINATION ${config_dir} COMPONENT clprim)
# pkg-config finds the prefix from where its file lies, so that the whole may be moved.
file(RELATIVE_PATH CLPRIM_PC_UP /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
string(REGEX REPLACE "/$" "" CLPRIM_PC_UP "${CLPRIM_PC_UP}")
configure_file(${CMAKE_SOURCE_DIR}/cmake/clprim.pc.in ${CMAKE_BINARY_DIR}/clprim.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/clprim.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT clprim)
# The same name inside the build tree and after installation.
add_library(clprim::clprim ALIAS clprim)

if(CLPRIM_BUILD_PYTHON OR CLPRIM_BUILD_PYTORCH)
    install(DIRECTORY ${CMAKE_SOURCE_DIR}/python/clprim DESTINATION . COMPONENT python PATTERN __pycache__ EXCLUDE)
    # A wheel holds no symbolic links: the library goes in under its SONAME alone.
    install(FILES $<TARGET_FILE:clprim> DESTINATION clprim/lib RENAME $<TARGET_SONAME_FILE_NAME:clprim>
        COMPONENT python)
endif()
if(CLPRIM_BUILD_PYTHON)
    install(TARGETS clprim_python LIBRARY DESTINATION clprim COMPONENT python)
endif()
if(CLPRIM_BUILD_COMMAND)
    install(TARGETS clprim_command RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT clprim)
    install(TARGETS clprim_command RUNTIME DESTINATION clprim/bin COMPONENT python)
endif()
if(CLPRIM_BUILD_PYTORCH)
    install(DIRECTORY ${CMAKE_SOURCE_DIR}/python/torch_ocl DESTINATION . COMPONENT python
        PATTERN __pycache__ EXCLUDE)
    install(TARGETS torch_ocl LIBRARY DESTINATION torch_ocl COMPONENT python)
    install(FILES ${CLPRIM_PYTHON_DIR}/torch_ocl/_built_for.py DESTINATION torch_ocl COMPONENT python)
    # For C++ extensions of PyTorch: torch_ocl.include_paths().
    install(DIRECTORY ${CMAKE_SOURCE_DIR}/include DESTINATION torch_ocl COMPONENT python)
    # What Inductor's C++ wrapper includes beside them.
    install(DIRECTORY ${CLPRIM_PYTHON_DIR}/torch_ocl/inductor_shims DESTINATION torch_ocl COMPONENT python)
endif()
include(${CMAKE_SOURCE_DIR}/cmake/Package.cmake)
