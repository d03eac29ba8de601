// A web application with oauth4webapi, whose API requires more than the password (RFC 9470): the application reads the challenge, asks the
// user for what it names, and calls again with the new token. The API wants two factors, and elsewhere two factors of the last seconds.
import * as oauth from 'oauth4webapi'
import { setTimeout } from 'node:timers/promises'
import { visit, tell, ISSUER, CLIENT_ID, CLIENT_SECRET, REDIRECT_URI } from './visit.js'

const { RECORDS_URL, RECENT_URL } = process.env
const issuer = new URL(ISSUER)
const as = await oauth.processDiscoveryResponse(issuer, await oauth.discoveryRequest(issuer))
const client = { client_id: CLIENT_ID, id_token_signed_response_alg: 'ES256' }
const auth = oauth.ClientSecretPost(CLIENT_SECRET)

// signIn signs the user in with further parameters of the authorization request.
async function signIn(asked = {}) {
  const [verifier, state, expectedNonce] = [oauth.generateRandomCodeVerifier(), oauth.generateRandomState(), oauth.generateRandomNonce()]
  const url = new URL(as.authorization_endpoint)
  for (const [name, value] of Object.entries({
    client_id: CLIENT_ID, redirect_uri: REDIRECT_URI, response_type: 'code', scope: 'openid', state, nonce: expectedNonce,
    code_challenge: await oauth.calculatePKCECodeChallenge(verifier), code_challenge_method: 'S256', ...asked,
  })) url.searchParams.set(name, value)
  const answer = oauth.validateAuthResponse(as, client, await visit(url), state)
  const response = await oauth.authorizationCodeGrantRequest(as, client, auth, answer, REDIRECT_URI, verifier)
  const maxAge = asked.max_age ? Number(asked.max_age) : undefined
  return oauth.processAuthorizationCodeResponse(as, client, response, { expectedNonce, maxAge, requireIdToken: true })
}

// challenge calls the API, and returns the parameters that its challenge asks for, null if the token is enough.
async function challenge({ access_token }, url) {
  try {
    await oauth.protectedResourceRequest(access_token, 'GET', new URL(url))
    return null
  } catch (error) {
    if (!(error instanceof oauth.WWWAuthenticateChallengeError) || error.status !== 401) throw error
    const { error: reason, acr_values, max_age } = error.cause[0].parameters
    if (reason !== 'insufficient_user_authentication') throw error
    return { acr_values, ...(max_age && { max_age }) }
  }
}

let tokens = await signIn()
const first = oauth.getValidatedIdTokenClaims(tokens).acr
const asked = await challenge(tokens, RECORDS_URL)
tokens = await signIn(asked)
const { acr } = oauth.getValidatedIdTokenClaims(tokens)
if (await challenge(tokens, RECORDS_URL)) throw new Error('the API refuses the new token')
let older
while (!(older = await challenge(tokens, RECENT_URL))) await setTimeout(100)
tokens = await signIn(older)
tell({ first, asked, acr, older, again: await challenge(tokens, RECENT_URL) === null })
