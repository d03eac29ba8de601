package pages

import "strings"

// named is what a browser says of itself, and what people call that.
type named struct{ says, name string }

// browsers are in this order: each says what those after it say too.
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

// browser words what a browser says of itself: it is a hint to its owner, and no proof of anything.
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
