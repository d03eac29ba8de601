// A web application with openid-client: a pushed request, the code, the ID token, userinfo, a refresh, introspection, revocation.
import * as client from 'openid-client'
import { visit, tell, ISSUER, CLIENT_ID, CLIENT_SECRET, REDIRECT_URI } from './visit.js'

const config = await client.discovery(new URL(ISSUER), CLIENT_ID, { id_token_signed_response_alg: 'ES256' }, client.ClientSecretBasic(CLIENT_SECRET))
const pkceCodeVerifier = client.randomPKCECodeVerifier()
const expectedState = client.randomState()
const expectedNonce = client.randomNonce()
const url = await client.buildAuthorizationUrlWithPAR(config, {
  redirect_uri: REDIRECT_URI, scope: 'openid email offline_access', state: expectedState, nonce: expectedNonce,
  code_challenge: await client.calculatePKCECodeChallenge(pkceCodeVerifier), code_challenge_method: 'S256',
})
const tokens = await client.authorizationCodeGrant(config, await visit(url), { pkceCodeVerifier, expectedState, expectedNonce, idTokenExpected: true })
const { sub } = tokens.claims()
const { email } = await client.fetchUserInfo(config, tokens.access_token, sub)
const next = await client.refreshTokenGrant(config, tokens.refresh_token)
const before = await client.tokenIntrospection(config, next.access_token)
await client.tokenRevocation(config, next.refresh_token)
const after = await client.tokenIntrospection(config, next.access_token)
const own = await client.clientCredentialsGrant(config, { scope: 'jobs:run' })
tell({ sub, email, before: before.active, after: after.active, own: own.scope })
