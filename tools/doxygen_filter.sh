#!/usr/bin/env bash
# doxygen_filter.sh FILE: a header with its plain comments as Doxygen's: those that stand alone describe what follows,
# the first one the file; those behind a member that member. Signs that mean something to Doxygen are escaped.
sed -E '
    /^ *\/\// { s/([<#@\\%])/\\\1/g; s|^( *)//|\1///|; b }
    s|([;,]) *// (.*)|\1 ///< \2|
' "$1" | sed -E '1 s|^///|/// @file\n///|'
