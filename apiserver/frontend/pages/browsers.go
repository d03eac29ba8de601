package pages

import "strings"

// named is a part of a User-Agent header, and the name that users know for it.
type named struct{ says, name string }

// browsers is ordered, because the User-Agent header of a browser may also contain the parts of browsers after it.
var browsers = []named{
	{"Edg/", "Edge"}, {"EdgA/", "Edge"}, {"EdgiOS/", "Edge"}, {"OPR/", "Opera"}, {"SamsungBrowser/", "Samsung Internet"}, {"Vivaldi/", "Vivaldi"},
	{"FxiOS/", "Firefox"}, {"Firefox/", "Firefox"}, {"CriOS/", "Chrome"}, {"Chrome/", "Chrome"}, {"Safari/", "Safari"},
}

var systems = []named{
	{"iPhone", "iPhone"}, {"iPad", "iPad"}, {"Android", "Android"}, {"Windows", "Windows"}, {"CrOS", "ChromeOS"}, {"Mac OS X", "macOS"}, {"Linux", "Linux"},
}

func nameOf(userAgent string, known []named) string {
	for _, n := range known {
		if strings.Contains(userAgent, n.says) {
			return n.name
		}
	}
	return ""
}

// browser returns a readable name for a User-Agent header. The header is a hint for the user, and proves nothing.
func browser(v *visit, userAgent string) string {
	browser, system := nameOf(userAgent, browsers), nameOf(userAgent, systems)
	switch {
	case browser != "" && system != "":
		return v.text.Text("signins.browser_on", "browser", browser, "system", system)
	case browser != "":
		return browser
	case system != "":
		return v.text.Text("signins.app_on", "system", system)
	}
	return v.text.Text("signins.unknown")
}
