<?php
$metadata[getenv('SP_ENTITY')] = [
    'AssertionConsumerService' => getenv('SP_URL') . '/acs',
    'SingleLogoutService' => [['Binding' => 'urn:oasis:names:tc:SAML:2.0:bindings:HTTP-POST', 'Location' => getenv('SP_URL') . '/slo']],
    'NameIDFormat' => 'urn:oasis:names:tc:SAML:2.0:nameid-format:persistent',
    'certData' => getenv('SP_CERTIFICATE'),
    'validate.authnrequest' => true,
    'validate.logout' => true,
];
