// Serves an OpenID provider with oidc-provider, over HTTP on loopback. It signs everyone in as the user that login_hint names, without
// pages of its own, and refuses the user "denied". Each line on its input replaces its signing keys.
import { createServer } from 'node:http'
import { createInterface } from 'node:readline'
import { exportJWK, generateKeyPair } from 'jose'
import { Provider } from 'oidc-provider'

const client = JSON.parse(process.env.CLIENT)
const algorithm = client.id_token_signed_response_alg

let current
const server = createServer((req, res) => current(req, res))
await new Promise(resolve => server.listen(0, '127.0.0.1', resolve))
const issuer = `http://127.0.0.1:${server.address().port}`

let generation = 0
async function rotate() {
  const { privateKey } = await generateKeyPair(algorithm, { extractable: true })
  const kid = `key-${++generation}`
  const provider = new Provider(issuer, {
    clients: [client],
    clientAuthMethods: [client.token_endpoint_auth_method],
    cookies: { keys: ['a key of the tests'] },
    jwks: { keys: [{ ...await exportJWK(privateKey), kid, alg: algorithm, use: 'sig' }] },
    claims: { openid: ['sub'], email: ['email', 'email_verified'], profile: ['given_name', 'family_name'] },
    features: { devInteractions: { enabled: false }, backchannelLogout: { enabled: true }, rpInitiatedLogout: { enabled: true } },
    interactions: { url: (_, { uid }) => `/interaction/${uid}` },
    pkce: { required: () => true },
    // The provider's own function sends nothing to loopback, where Cardea is.
    fetch: (url, { dispatcher, ...options }) => fetch(url, options),
    findAccount: (_, accountId) => ({
      accountId,
      claims: () => ({ sub: accountId, email: `${accountId}@globex.example`, email_verified: true, given_name: 'Ann', family_name: 'Lee' }),
    }),
    async loadExistingGrant({ oidc }) {
      const grant = new oidc.provider.Grant({ clientId: oidc.client.clientId, accountId: oidc.session.accountId })
      grant.addOIDCScope('openid email profile')
      await grant.save()
      return grant
    },
  })
  // An error of the provider itself, such as an undelivered logout, ends the test.
  for (const event of ['server_error', 'backchannel.error']) provider.on(event, (...args) => console.error(event, ...args.filter(a => a instanceof Error)))
  const serve = provider.callback()
  current = async (req, res) => {
    if (!req.url.startsWith('/interaction/')) return serve(req, res)
    const { params: { login_hint: user = 'ann' } } = await provider.interactionDetails(req, res)
    const result = user === 'denied' ? { error: 'access_denied', error_description: 'the user said no' } : { login: { accountId: user } }
    await provider.interactionFinished(req, res, result, { mergeWithLastSubmission: false })
  }
  console.log(`${issuer} ${kid}`)
}

await rotate()
for await (const _ of createInterface({ input: process.stdin })) await rotate()
process.exit(0)
