// A web application with openid-client, whose API requires more than the password (RFC 9470): the application reads the challenge, asks the
// user for what it names, and calls again with the new token. The API wants two factors, and elsewhere two factors of the last seconds.
import * as client from 'openid-client'
import { setTimeout } from 'node:timers/promises'
import { visit, tell, ISSUER, CLIENT_ID, CLIENT_SECRET, REDIRECT_URI } from './visit.js'

const { RECORDS_URL, RECENT_URL } = process.env
const config = await client.discovery(new URL(ISSUER), CLIENT_ID, { id_token_signed_response_alg: 'ES256' }, client.ClientSecretBasic(CLIENT_SECRET))

// signIn signs the user in with further parameters of the authorization request.
async function signIn(asked = {}) {
  const [pkceCodeVerifier, expectedState, expectedNonce] = [client.randomPKCECodeVerifier(), client.randomState(), client.randomNonce()]
  const url = client.buildAuthorizationUrl(config, {
    redirect_uri: REDIRECT_URI, scope: 'openid', state: expectedState, nonce: expectedNonce,
    code_challenge: await client.calculatePKCECodeChallenge(pkceCodeVerifier), code_challenge_method: 'S256', ...asked,
  })
  const maxAge = asked.max_age ? Number(asked.max_age) : undefined
  return client.authorizationCodeGrant(config, await visit(url), { pkceCodeVerifier, expectedState, expectedNonce, idTokenExpected: true, maxAge })
}

// challenge calls the API, and returns the parameters that its challenge asks for, null if the token is enough.
async function challenge({ access_token }, url) {
  try {
    await client.fetchProtectedResource(config, access_token, new URL(url), 'GET')
    return null
  } catch (error) {
    const { error: reason, acr_values, max_age } = error.cause?.[0]?.parameters ?? {}
    if (error.status !== 401 || reason !== 'insufficient_user_authentication') throw error
    return { acr_values, ...(max_age && { max_age }) }
  }
}

let tokens = await signIn()
const first = tokens.claims().acr
const asked = await challenge(tokens, RECORDS_URL)
tokens = await signIn(asked)
const { acr } = tokens.claims()
if (await challenge(tokens, RECORDS_URL)) throw new Error('the API refuses the new token')
let older
while (!(older = await challenge(tokens, RECENT_URL))) await setTimeout(100)
tokens = await signIn(older)
tell({ first, asked, acr, older, again: await challenge(tokens, RECENT_URL) === null })
