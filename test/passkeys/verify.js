// Verifies a registration and then a sign-in with SimpleWebAuthn. Reads {creation, attestation, request, assertion, origin} from standard
// input: options of the server, and the answers of an authenticator. Prints what SimpleWebAuthn read from them.
import { verifyAuthenticationResponse, verifyRegistrationResponse } from '@simplewebauthn/server'
import { text } from 'node:stream/consumers'

const { creation, attestation, request, assertion, origin } = JSON.parse(await text(process.stdin))

const registered = await verifyRegistrationResponse({
  response: attestation,
  expectedChallenge: creation.challenge,
  expectedOrigin: origin,
  expectedRPID: creation.rp.id,
  requireUserVerification: creation.authenticatorSelection.userVerification === 'required',
  supportedAlgorithmIDs: creation.pubKeyCredParams.map((parameter) => parameter.alg),
})
if (!registered.verified) throw new Error('the registration does not verify')
const { credential, aaguid, userVerified, credentialDeviceType, credentialBackedUp } = registered.registrationInfo

const signedIn = await verifyAuthenticationResponse({
  response: assertion,
  expectedChallenge: request.challenge,
  expectedOrigin: origin,
  expectedRPID: request.rpId,
  credential,
  requireUserVerification: request.userVerification === 'required',
})

console.log(JSON.stringify({
  id: credential.id,
  publicKey: Buffer.from(credential.publicKey).toString('base64url'),
  aaguid: aaguid.replaceAll('-', ''),
  userVerified,
  multiDevice: credentialDeviceType === 'multiDevice',
  backedUp: credentialBackedUp,
  signedIn: signedIn.verified,
  counter: signedIn.authenticationInfo?.newCounter,
}))
