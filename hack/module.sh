#!/bin/sh
# Shared by the scripts that build third-party programs. Each is built in a copy of its own module, with the dependencies that its authors
# pin. Source it after $out, the folder of the programs, is set. $work is a temporary folder that is removed at the end.
work=$(mktemp -d)
trap 'chmod -R u+w "$work" && rm -rf "$work"' EXIT
export CGO_ENABLED=0 GOWORK=off GOFLAGS='-mod=readonly -buildvcs=false'

# fetch MODULE VERSION SUM FOLDER copies a module into a folder, if its content has the checksum SUM.
fetch() {
	(cd "$work" && go mod download -json "$1@$2") >"$work/module.json"
	grep -qF "\"Sum\": \"$3\"" "$work/module.json" || {
		echo "$1@$2 is not the module that was pinned here" >&2
		exit 1
	}
	cp -R "$(sed -n 's/^\t"Dir": "\(.*\)",*$/\1/p' "$work/module.json")" "$4"
	chmod -R u+w "$4"
}

# current NAME VERSION reports whether a program exists in a version.
current() {
	[ -x "$out/$1" ] && [ "$(cat "$out/.$1" 2>/dev/null)" = "$2" ]
}

# build NAME VERSION PACKAGE FLAGS builds a package of the module in the folder NAME.
build() {
	echo "Building $1 $2 into ${out#"$root"/}; this takes minutes, once."
	mkdir -p "$out"
	rm -f "$out/.$1" # an interrupted build must not pass for a finished one
	(cd "$work/$1" && go build -p 2 -trimpath -ldflags "-s -w $4" -o "$out/$1" "$3")
	echo "$2" >"$out/.$1"
}
