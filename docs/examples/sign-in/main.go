// Command sign-in is a web application that signs users in with Cardea. docs/sign-in.md shows how to run it.
package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"html"
	"log"
	"net/http"
	"os"
	"sync"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
)

// signIn is one that was begun: what its answer has to match.
type signIn struct{ nonce, verifier string }

// application keeps the signed-in user's name under a cookie of its own. A production application keeps it in its
// session store.
type application struct {
	oauth    oauth2.Config
	verifier *oidc.IDTokenVerifier
	begun    sync.Map // state: signIn
	people   sync.Map // cookie: name
}

func main() {
	issuer, err := oidc.NewProvider(context.Background(), os.Getenv("ISSUER"))
	if err != nil {
		log.Fatal(err)
	}
	address := cmp.Or(os.Getenv("LISTEN"), "127.0.0.1:8000")
	app := &application{
		oauth: oauth2.Config{
			ClientID: os.Getenv("CLIENT_ID"), ClientSecret: os.Getenv("CLIENT_SECRET"), Endpoint: issuer.Endpoint(),
			RedirectURL: "http://" + address + "/callback", Scopes: []string{oidc.ScopeOpenID, "email", "profile"},
		},
		verifier: issuer.Verifier(&oidc.Config{ClientID: os.Getenv("CLIENT_ID")}),
	}
	http.HandleFunc("GET /{$}", app.home)
	http.HandleFunc("GET /callback", app.callback)
	log.Printf("http://%s", address)
	log.Fatal(http.ListenAndServe(address, nil))
}

// home greets a signed-in user and redirects every other visitor to Cardea.
func (a *application) home(w http.ResponseWriter, r *http.Request) {
	if cookie, err := r.Cookie("app-session"); err == nil {
		if name, found := a.people.Load(cookie.Value); found {
			fmt.Fprintf(w, "Hello %s\n", html.EscapeString(name.(string)))
			return
		}
	}
	state, begun := rand.Text(), signIn{nonce: rand.Text(), verifier: oauth2.GenerateVerifier()}
	a.begun.Store(state, begun)
	// The state is bound to the browser, so an attacker cannot sign the visitor in to the attacker's account.
	http.SetCookie(w, &http.Cookie{Name: "app-state", Value: state, Path: "/callback", MaxAge: 600, HttpOnly: true, SameSite: http.SameSiteLaxMode})
	http.Redirect(w, r, a.oauth.AuthCodeURL(state, oidc.Nonce(begun.nonce), oauth2.S256ChallengeOption(begun.verifier)), http.StatusFound)
}

// callback takes the code that Cardea sent the browser back with.
func (a *application) callback(w http.ResponseWriter, r *http.Request) {
	state := r.FormValue("state")
	cookie, err := r.Cookie("app-state")
	begun, found := a.begun.LoadAndDelete(state)
	if err != nil || !found || cookie.Value != state {
		http.Error(w, "this sign-in was not begun here: begin again", http.StatusBadRequest)
		return
	}
	if refused := r.FormValue("error"); refused != "" {
		http.Error(w, "not signed in: "+refused, http.StatusForbidden)
		return
	}
	name, err := a.redeem(r, begun.(signIn))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	session := rand.Text()
	a.people.Store(session, name)
	http.SetCookie(w, &http.Cookie{Name: "app-session", Value: session, Path: "/", HttpOnly: true, SameSite: http.SameSiteLaxMode})
	http.Redirect(w, r, "/", http.StatusFound)
}

// redeem exchanges a code for the name of the user that it was issued to.
func (a *application) redeem(r *http.Request, begun signIn) (string, error) {
	token, err := a.oauth.Exchange(r.Context(), r.FormValue("code"), oauth2.VerifierOption(begun.verifier))
	if err != nil {
		return "", err
	}
	raw, _ := token.Extra("id_token").(string)
	id, err := a.verifier.Verify(r.Context(), raw)
	if err != nil {
		return "", err
	}
	if id.Nonce != begun.nonce {
		return "", fmt.Errorf("the ID token is of another sign-in")
	}
	var claims struct{ Email, Name string }
	if err := id.Claims(&claims); err != nil {
		return "", err
	}
	return cmp.Or(claims.Name, claims.Email, id.Subject), nil
}
