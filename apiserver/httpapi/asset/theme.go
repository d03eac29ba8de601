package asset

import (
	"embed"
	"io/fs"
)

//go:embed theme
var theme embed.FS

// Theme returns the folder of the files that all pages share: tokens.css has the colors, controls.css the fonts, links
// and controls.
func Theme() fs.FS {
	folder, err := fs.Sub(theme, "theme")
	if err != nil {
		panic(err) // fs.Sub fails only if the name is not a valid path
	}
	return folder
}
