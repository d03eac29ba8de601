package main

import (
	"debug/buildinfo"
	"encoding/hex"
	"fmt"
	"os"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// writeBill writes the CycloneDX bill of materials of a binary. It lists only the modules that the linker recorded in
// the binary, not modules of the build that are not linked.
func (r *release) writeBill(program, binary, to string) error {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return err
	}
	digest, err := digestOf(binary)
	if err != nil {
		return err
	}
	reference := "pkg:golang/" + info.Main.Path + "@" + r.version
	bill := cdx.NewBOM()
	bill.SerialNumber = serial(digest)
	bill.Metadata = &cdx.Metadata{
		Timestamp: r.created.Format(time.RFC3339),
		Component: &cdx.Component{
			BOMRef: reference, Type: cdx.ComponentTypeApplication, Name: program, Version: r.version, PackageURL: reference,
			Hashes:   &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: digest}},
			Licenses: &cdx.Licenses{{License: &cdx.License{ID: "Apache-2.0"}}},
		},
	}
	standard := "pkg:golang/std@" + info.GoVersion[len("go"):]
	components := []cdx.Component{{
		BOMRef: standard, Type: cdx.ComponentTypeLibrary, Name: "std", Version: info.GoVersion[len("go"):], PackageURL: standard,
		Description: "Go's standard library",
	}}
	references := []string{standard}
	for _, module := range info.Deps {
		if module.Replace != nil {
			module = module.Replace
		}
		url := "pkg:golang/" + module.Path + "@" + module.Version
		component := cdx.Component{BOMRef: url, Type: cdx.ComponentTypeLibrary, Name: module.Path, Version: module.Version, PackageURL: url}
		if module.Sum != "" { // a hash of a file tree, which is not a component hash of CycloneDX
			component.Properties = &[]cdx.Property{{Name: "cdx:go:sum", Value: module.Sum}}
		}
		components = append(components, component)
		references = append(references, url)
	}
	bill.Components = &components
	bill.Dependencies = &[]cdx.Dependency{{Ref: reference, Dependencies: &references}}
	file, err := os.Create(to)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := cdx.NewBOMEncoder(file, cdx.BOMFileFormatJSON).SetPretty(true).Encode(bill); err != nil {
		return err
	}
	return file.Close()
}

// serial returns a UUID made from the binary's digest, so that the same binary has the same bill. Its version is 8,
// whose content RFC 9562 leaves to the application.
func serial(digest string) string {
	bytes, _ := hex.DecodeString(digest[:32]) // digestOf returns hexadecimal digits
	bytes[6] = bytes[6]&0x0f | 0x80
	bytes[8] = bytes[8]&0x3f | 0x80
	return fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", bytes[:4], bytes[4:6], bytes[6:8], bytes[8:10], bytes[10:])
}
