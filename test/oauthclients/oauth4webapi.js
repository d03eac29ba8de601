// A web application with oauth4webapi: discovery by RFC 8414 (the issuer has a path), the code, the ID token against the key set, a device.
import * as oauth from 'oauth4webapi'
import { visit, tell, ISSUER, CLIENT_ID, CLIENT_SECRET, REDIRECT_URI } from './visit.js'

const issuer = new URL(ISSUER)
const as = await oauth.processDiscoveryResponse(issuer, await oauth.discoveryRequest(issuer, { algorithm: 'oauth2' }))
const client = { client_id: CLIENT_ID, id_token_signed_response_alg: 'ES256' }
const auth = oauth.ClientSecretPost(CLIENT_SECRET)
const verifier = oauth.generateRandomCodeVerifier()
const [state, nonce] = [oauth.generateRandomState(), oauth.generateRandomNonce()]
const url = new URL(as.authorization_endpoint)
for (const [name, value] of Object.entries({
  client_id: CLIENT_ID, redirect_uri: REDIRECT_URI, response_type: 'code', scope: 'openid profile', state, nonce,
  code_challenge: await oauth.calculatePKCECodeChallenge(verifier), code_challenge_method: 'S256',
})) url.searchParams.set(name, value)
const answer = oauth.validateAuthResponse(as, client, await visit(url), state)
const response = await oauth.authorizationCodeGrantRequest(as, client, auth, answer, REDIRECT_URI, verifier)
const tokens = await oauth.processAuthorizationCodeResponse(as, client, response, { expectedNonce: nonce, requireIdToken: true })
await oauth.validateApplicationLevelSignature(as, response)
const { sub } = oauth.getValidatedIdTokenClaims(tokens)
await oauth.processUserInfoResponse(as, client, sub, await oauth.userInfoRequest(as, client, tokens.access_token))

const device = await oauth.processDeviceAuthorizationResponse(as, client, await oauth.deviceAuthorizationRequest(as, client, auth, { scope: 'openid' }))
await visit(`${device.verification_uri_complete}`)
const granted = await oauth.processDeviceCodeResponse(as, client, await oauth.deviceCodeGrantRequest(as, client, auth, device.device_code), { requireIdToken: true })
tell({ sub, device: oauth.getValidatedIdTokenClaims(granted).sub })
