package integration

import (
	"context"
	"encoding/json"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/test/testkit"
)

const appsPath = "/api-auth/apps"

var _ = Describe("Apps and their runtime keys", Ordered, func() {
	var w *world
	var key string
	BeforeAll(func(ctx context.Context) {
		w = newWorld(ctx, testkit.OperatorOptions{})
		key = w.tenant(ctx, "acme")
	})

	secretOf := func(answer testkit.Answer) (id, secret string) {
		GinkgoHelper()
		Expect(answer.Status).To(Equal(200), string(answer.Raw))
		var made struct {
			Key    struct{ ID string }
			Secret string
		}
		Expect(json.Unmarshal([]byte(answer.Raw), &made)).To(Succeed())
		return made.Key.ID, made.Secret
	}

	It("are created, changed and deleted as resources", func(ctx context.Context) {
		answer := w.ask("POST", appsPath, key, `{"app_slug":"shop","name":" Shop ","key_prefix":"shop","description":"Customers.","permissions":["api_keys:read","orders:read"]}`)
		Expect(answer.Status).To(Equal(200), string(answer.Raw))
		Expect(answer.Header.Get("Cardea-Synced")).To(Equal("true"))
		Expect(answer.JSON).To(And(HaveKeyWithValue("name", "Shop"), HaveKeyWithValue("is_active", true), HaveKeyWithValue("rate_limit_scheme_slug", BeNil())))
		obj := &v1alpha1.APIAuthApp{}
		Expect(cluster.Client.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: "acme.shop"}, obj)).To(Succeed())
		Expect(obj.Labels).To(HaveKeyWithValue(v1alpha1.LabelManagedBy, "cardea-http"))
		Expect(w.ask("GET", appsPath+"/shop", key, "").Raw).To(Equal(answer.Raw))
		Expect(w.ask("POST", appsPath, key, `{"app_slug":"shop","name":"Again"}`).Status).To(Equal(409))

		answer = w.ask("PATCH", appsPath+"/shop", key, `{"description":null,"permissions":["api_keys:read","orders:read","orders:write"]}`)
		Expect(answer.Status).To(Equal(200), string(answer.Raw))
		Expect(answer.JSON).To(And(HaveKeyWithValue("description", BeNil()), HaveKeyWithValue("permissions", HaveLen(3))))

		Expect(w.ask("POST", appsPath, key, `{"app_slug":"brief","name":"Brief"}`).Status).To(Equal(200))
		Expect(w.ask("DELETE", appsPath+"/brief", key, "").Status).To(Equal(204))
		Expect(w.ask("GET", appsPath+"/brief", key, "").Status).To(Equal(404))
	})

	It("issue keys that work at once, and are revoked within a second", func() {
		id, secret := secretOf(w.ask("POST", appsPath+"/shop/keys", key, `{"name":"Customer","permissions":["api_keys:read"],"metadata":{"plan":"gold"}}`))
		Expect(secret).To(HavePrefix("shop_"))
		Expect(w.ask("GET", appsPath+"/shop/keys", secret, "").Status).To(Equal(200))
		Expect(w.ask("DELETE", appsPath+"/shop", key, "").Status).To(Equal(409), "the app has an active key")
		Expect(w.ask("POST", appsPath+"/shop/keys/"+id+"/revoke", key, `{"reason":"left"}`).Status).To(Equal(200))
		Eventually(func() int { return w.do("GET", appsPath+"/shop/keys", secret, "").Status }).WithTimeout(time.Second).WithPolling(20 * time.Millisecond).Should(Equal(401))
	})

	It("are refused while the app is inactive, and accepted again afterwards", func(ctx context.Context) {
		_, secret := secretOf(w.ask("POST", appsPath+"/shop/keys", key, `{"name":"Customer","permissions":["api_keys:read"]}`))
		Expect(w.ask("GET", appsPath+"/shop/keys", secret, "").Status).To(Equal(200))
		Expect(w.ask("PATCH", appsPath+"/shop", key, `{"is_active":false}`).Status).To(Equal(200))
		Expect(w.do("GET", appsPath+"/shop/keys", secret, "").Status).To(Equal(401))
		Expect(w.ask("PATCH", appsPath+"/shop", key, `{"is_active":true}`).Status).To(Equal(200))
		Expect(w.ask("GET", appsPath+"/shop/keys", secret, "").Status).To(Equal(200))
	})

	It("list declared keys with the others, and do not change them", func() {
		answer := w.ask("GET", appsPath, key, "")
		Expect(answer.Status).To(Equal(200))
		for _, one := range answer.JSON["apps"].([]any) {
			app := one.(map[string]any)["app_slug"].(string)
			if app == "shop" {
				continue
			}
			keys := w.ask("GET", appsPath+"/"+app+"/keys", key, "").JSON["keys"].([]any)
			Expect(keys).NotTo(BeEmpty())
			declared := keys[0].(map[string]any)
			Expect(declared).To(HaveKeyWithValue("source", "declared"))
			refused := w.ask("POST", appsPath+"/"+app+"/keys/"+declared["id"].(string)+"/revoke", key, `{}`)
			Expect(refused.Status).To(Equal(409))
			Expect(string(refused.Raw)).To(ContainSubstring(declared["resource"].(string)))
			return
		}
		Fail("the tenant's own app is not listed")
	})
})
