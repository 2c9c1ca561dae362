// An OpenID provider for the tests of logging in: the certified implementation, with two people and one client.
// Arguments: what the client is called, its secret, where it is sent back to, to where after log-out, and where the
// provider says that a session has ended. It ends with its standard input.
import Provider from "oidc-provider";
import { createServer } from "node:http";

const [clientId, secret, back, afterwards, backchannel] = process.argv.slice(2);
const people = {
  "u-17": { name: "Grace Hopper", email: "grace@id.example", groups: ["treasurers"] },
  "u-18": { name: "Linus Example", email: "linus@id.example", groups: [] },
};
const server = createServer();
server.listen(0, "127.0.0.1", () => {
  const issuer = `http://127.0.0.1:${server.address().port}`;
  const provider = new Provider(issuer, {
    clients: [
      {
        client_id: clientId,
        client_secret: secret,
        redirect_uris: [back],
        post_logout_redirect_uris: [afterwards],
        backchannel_logout_uri: backchannel,
        backchannel_logout_session_required: true,
      },
    ],
    claims: { openid: ["sub"], profile: ["name"], email: ["email"], groups: ["groups"] },
    scopes: ["openid", "profile", "email", "groups"],
    features: { backchannelLogout: { enabled: true } },
    pkce: { required: () => true },
    findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id, ...people[id] }) }),
    // By itself it calls nobody on its own machine, where all of this test is.
    fetch: (url, { dispatcher, ...options }) => fetch(url, options),
    cookies: { keys: ["a key for tests"] },
  });
  server.on("request", provider.callback());
  console.log(`Serving ${issuer}`);
});
process.stdin.resume();
process.stdin.on("end", () => process.exit(0));
