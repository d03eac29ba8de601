// Applies PATCH operations as scim-patch and scimmy do, and evaluates filters as scim2-parse-filter does. Reads
// {patches: [{before, operations}], filters: [{resource, filter}]} from standard input. Prints
// {patches: [{name of the peer: {after} or {error}}], filters: [{matches} or {error}]}.
import { text } from 'node:stream/consumers'
import patcher from 'scim-patch'
import parser from 'scim2-parse-filter'
import SCIMMY from 'scimmy'

const input = JSON.parse(await text(process.stdin))
const message = 'urn:ietf:params:scim:api:messages:2.0:PatchOp'
SCIMMY.Schemas.User.extend(SCIMMY.Schemas.EnterpriseUser)

const copy = (value) => JSON.parse(JSON.stringify(value))

const outcome = async (run) => {
  try {
    return { after: copy(await run()) }
  } catch (error) {
    return { error: String(error.message ?? error) }
  }
}

const applied = ({ before, operations }) => ({
  'scim-patch': () => {
    const body = { schemas: [message], Operations: copy(operations) }
    patcher.patchBodyValidation(body)
    return patcher.scimPatch(copy(before), body.Operations)
  },
  scimmy: async () => {
    const user = new SCIMMY.Schemas.User({ id: '1', ...copy(before) })
    const patched = await new SCIMMY.Messages.PatchOp({ schemas: [message], Operations: copy(operations) }).apply(user)
    return patched ?? user
  },
})

const patches = []
for (const patch of input.patches ?? []) {
  const outcomes = {}
  for (const [peer, run] of Object.entries(applied(patch))) outcomes[peer] = await outcome(run)
  patches.push(outcomes)
}

const filters = (input.filters ?? []).map(({ resource, filter }) => {
  try {
    return { matches: parser.filter(parser.parse(filter))(resource) }
  } catch (error) {
    return { error: String(error.message ?? error) }
  }
})

console.log(JSON.stringify({ patches, filters }))
