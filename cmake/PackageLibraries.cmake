# Run by CPack before it makes a package: libraries whose packages have other names in other distributions are put
# beside libclprim, with their licences, so that one package serves Debian from 12 and Ubuntu from 24.04 on.
# The name of fmt's package changes with every version, and Ubuntu's libjpeg is another one than Debian's.
file(GLOB_RECURSE libraries "${CPACK_TEMPORARY_INSTALL_DIRECTORY}/*/libclprim.so.*.*.*")
foreach(library IN LISTS libraries)
    get_filename_component(folder ${library} DIRECTORY)
    string(REGEX REPLACE "/lib(/[^/]*)?$" "" prefix ${folder})
    file(GET_RUNTIME_DEPENDENCIES LIBRARIES ${library} RESOLVED_DEPENDENCIES_VAR found
        UNRESOLVED_DEPENDENCIES_VAR missing PRE_INCLUDE_REGEXES "^lib(fmt|jpeg)\\." PRE_EXCLUDE_REGEXES ".*")
    foreach(dependency IN LISTS found)
        file(COPY ${dependency} DESTINATION ${folder}/clprim FOLLOW_SYMLINK_CHAIN)
        file(REAL_PATH ${dependency} file)
        execute_process(COMMAND dpkg-query --search ${file} OUTPUT_VARIABLE owner ERROR_QUIET)
        string(REGEX REPLACE ":.*" "" owner "${owner}")
        if(NOT owner OR NOT EXISTS /usr/share/doc/${owner}/copyright)
            message(FATAL_ERROR "no licence was found of ${file}")
        endif()
        file(MAKE_DIRECTORY ${prefix}/share/doc/clprim)
        file(COPY_FILE /usr/share/doc/${owner}/copyright ${prefix}/share/doc/clprim/copyright.${owner})
    endforeach()
endforeach()
