package document_test

import (
	"testing"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/internal/document"
)

func TestKindsHaveTheNamesOfTheAPI(t *testing.T) {
	t.Parallel()
	if document.KindOAuthApp != v1alpha1.KindOAuthApp || document.KindOAuthClient != v1alpha1.KindOAuthClient || document.KindIdentityDeployment != v1alpha1.KindIdentityDeployment {
		t.Errorf("%s, %s, %s", document.KindOAuthApp, document.KindOAuthClient, document.KindIdentityDeployment)
	}
}
