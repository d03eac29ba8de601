package asset

import (
	"embed"
	"io/fs"
)

//go:embed theme
var theme embed.FS

// Theme is a folder with what all pages share: tokens.css has the colours, controls.css letters, links and controls.
func Theme() fs.FS {
	folder, err := fs.Sub(theme, "theme")
	if err != nil {
		panic(err) // the name above is no path
	}
	return folder
}
