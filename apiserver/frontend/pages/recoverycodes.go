package pages

import (
	"net/http"
	"regexp"
	"strings"

	"github.com/cardea-iam/cardea/apiserver/httpapi/site"
	enduserapi "github.com/cardea-iam/cardea/client/enduser"
)

// codesPage shows the recovery codes that were just made, or offers to make new ones.
type codesPage struct {
	// Codes are the new codes, nil if none were made now. They are shown only this time. Joined are the codes one a line.
	Codes  []string
	Joined string
	// Left says how many codes are left, "" if none were made.
	Left string
	// Next is the address of the page that follows.
	Next string
}

func showCodes(v *visit) error {
	if _, open := v.tenant.Settings.Strong(); !open {
		return nothingThere()
	}
	list, err := v.api.ListSecondFactors(v.r.Context())
	if err != nil {
		return err
	}
	own := codesPage{}
	if codes := list.Data.RecoveryCodes; codes != nil {
		own.Left = v.text.Count("security.codes_left", codes.Left)
	}
	return v.render("codes", v.text.Text("codes.title"), own)
}

// showMadeCodes shows new recovery codes, without a redirect, so that they are in no cookie and no address.
func showMadeCodes(v *visit, codes []string) error {
	if err := readSession(v); err != nil { // a proof may have opened the other pages
		return err
	}
	own := codesPage{Codes: codes, Joined: strings.Join(codes, "\n"), Next: v.link(securityPath)}
	if to, ok := target(v, v.r.URL.Query().Get("continue")); ok {
		own.Next = to
	}
	v.form, v.status = nil, http.StatusOK
	return v.render("codes", v.text.Text("codes.title"), own)
}

// codesFormat matches recovery codes, one a line.
var codesFormat = regexp.MustCompile(`^[0-9a-z]{4}(-[0-9a-z]{4}){5}(\n[0-9a-z]{4}(-[0-9a-z]{4}){5}){0,9}\n?$`)

func takeCodes(v *visit) error {
	sent := v.form
	if sent.Action == "download" {
		return downloadCodes(v, sent.value("codes"))
	}
	sent.Action = "make"
	made, err := v.api.MakeRecoveryCodes(v.r.Context(), enduserapi.Empty{})
	if err != nil {
		return v.again(sent, err)
	}
	return showMadeCodes(v, made.Data.Codes)
}

// downloadCodes returns the recovery codes of a form as a text file.
func downloadCodes(v *visit, codes string) error {
	if !codesFormat.MatchString(codes) {
		failure(v, http.StatusBadRequest, "bad_form")
		return nil
	}
	v.sendHeader()
	v.Header().Set("Content-Type", "text/plain; charset=utf-8")
	v.Header().Set("Content-Disposition", `attachment; filename="recovery-codes.txt"`)
	v.WriteHeader(http.StatusOK)
	_, err := v.Write([]byte(site.Host(v.r) + "\n" + v.who.User.Email + "\n\n" + strings.TrimSpace(codes) + "\n"))
	return err
}
